#pragma once

#include <string>
#include <vector>

#include "client/show/printer.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/scene_service.pb.h"
#include "nerf/v1/training_service.pb.h"

namespace nerf {

// Print results in the format of --output: tables, JSON or resource names.
void PrintScenes(const Printer& printer, const std::vector<v1::Scene>& scenes);
void PrintScene(const Printer& printer, const v1::Scene& scene);
// The same; a table leaves out the list of files, which may be thousands.
void PrintNewScene(const Printer& printer, const v1::Scene& scene);
void PrintJobs(const Printer& printer, const std::vector<v1::TrainingJob>& jobs);
void PrintJob(const Printer& printer, const v1::TrainingJob& job);
// A row for each point of the curves; --output json has the previews too.
void PrintMetrics(const Printer& printer, const v1::ListTrainingMetricsResponse& metrics);
void PrintModels(const Printer& printer, const std::vector<v1::Model>& models);
void PrintModel(const Printer& printer, const v1::Model& model);
void PrintWorkers(const Printer& printer, const std::vector<v1::Worker>& workers);
void PrintValidation(const Printer& printer, const v1::ValidateSceneResponse& validation);
// The outcome of a call without a result: `words` in tables, {"name"} in JSON.
void PrintDone(const Printer& printer, const std::string& name, const std::string& words);
// The files that were written of the resource: {"name", "files"} in JSON, `words` in tables unless
// empty, else a file a line.
void PrintFiles(const Printer& printer, const std::string& name,
                const std::vector<std::string>& files, const std::string& words);

// "12400/20000" with a budget in steps, else "12400 (62%)"; empty before the first progress.
std::string StepText(const v1::TrainingJob& job);
// "test PSNR 33.12 dB", over all test views, else "preview PSNR 30.20 dB at step 1200"; "" without
// either.
std::string PsnrText(const v1::TrainingJob& job);
// "file: field: message" without empty parts, safe for terminals.
std::string ProblemText(const v1::SceneProblem& problem);
bool IsFinal(v1::TrainingJob::State state);
// The API's name of the state, such as "RUNNING"; a number for an unknown one.
std::string StateText(v1::TrainingJob::State state);

}  // namespace nerf
