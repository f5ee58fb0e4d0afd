#pragma once

#include <string>
#include <vector>

#include "client/show/printer.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

// Print jobs in the format of --output: tables, JSON or resource names.
void PrintJobs(const Printer& printer, const std::vector<v1::Job>& jobs);
void PrintJob(const Printer& printer, const v1::Job& job);
// A row for each point of the curves; --output json has the previews too.
void PrintMetrics(const Printer& printer, const v1::ListJobMetricsResponse& metrics);

// "w-1, w-2": the workers that have it.
std::string WorkersText(const v1::Job& job);

}  // namespace nerf
