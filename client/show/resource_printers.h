#pragma once

#include <string>
#include <vector>

#include "client/show/printer.h"
#include "nerf/v1/admin_service.pb.h"
#include "nerf/v1/model_service.pb.h"
#include "nerf/v1/scene_service.pb.h"

namespace nerf {

// Print results in the format of --output: tables, JSON or resource names.
void PrintScenes(const Printer& printer, const std::vector<v1::Scene>& scenes);
void PrintScene(const Printer& printer, const v1::Scene& scene);
// The same; a table leaves out the list of files, which may be thousands.
void PrintNewScene(const Printer& printer, const v1::Scene& scene);
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

// "file: field: message" without empty parts, safe for terminals.
std::string ProblemText(const v1::SceneProblem& problem);

absl::Time ToTime(const google::protobuf::Timestamp& timestamp);
// "2026-09-21 14:13:20 UTC"; empty for one that is not set.
std::string TimeText(const google::protobuf::Timestamp& timestamp);
// "33.12".
std::string DbText(double psnr);

}  // namespace nerf
