#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/show/printer.h"
#include "client/show/progress_display.h"
#include "client/show/text_table.h"
#include "nerf/v1/job_service.pb.h"

namespace nerf {

// A file that a job has made.
struct JobFile {
  std::string name;  // without folders
  v1::BlobRef blob;
};

// What comes of a job: one file, several, or several of which some are there before its end.
enum class JobOutput { kOneFile, kSeveralFiles, kFilesMeanwhile };

// What differs between the kinds of jobs for people. Methods take jobs of the kind; their texts may
// contain text from the server: apply PlainText before printing. The base class suits a kind that
// this program does not know.
class KindView {
 public:
  // invalid_code: the exit code of a job that failed because of what it was given.
  KindView(std::string_view word, std::string_view noun, int invalid_code)
      : word_(word), noun_(noun), invalid_code_(invalid_code) {}
  virtual ~KindView() = default;

  // As in filters: "pose".
  std::string_view word() const { return word_; }
  // In sentences: "pose job"; a training is "job".
  std::string_view noun() const { return noun_; }
  int invalid_code() const { return invalid_code_; }

  // Columns of a list: what it is of, how far it is, what comes of it.
  virtual std::string Subject(const v1::Job&) const { return ""; }
  virtual std::string Progress(const v1::Job&) const { return ""; }
  virtual std::string Result(const v1::Job&) const { return ""; }
  // Estimated seconds until its end; 0: not known.
  virtual double SecondsLeft(const v1::Job&) const { return 0; }
  // What it does now, where its state does not say that.
  virtual std::string Doing(const v1::Job&) const { return ""; }

  // What is shown of one job: what was asked for, who does it, what has come of it.
  virtual void AddSpec(const v1::Job&, TextFields*) const {}
  virtual void AddWorkers(const v1::Job& job, TextFields* fields) const {
    for (const std::string& worker : job.workers()) fields->Add("worker", worker);
  }
  virtual void AddStatus(const v1::Job&, TextFields*) const {}
  virtual void PrintTables(const Printer&, const v1::Job&) const {}

  // The line of a watch, whose progress came `age` ago; nullopt: there is nothing to show.
  virtual std::optional<ProgressLine> LineOf(const v1::Job&, absl::Duration age) const;
  // Whether LineOf counts time down between messages.
  virtual bool CountsDown(const v1::Job&) const { return false; }
  // What a message of a watch tells besides the state.
  virtual std::vector<std::string> News(const v1::WatchJobResponse&,
                                        const v1::Job& /*before*/) const {
    return {};
  }
  // Where a later attempt starts.
  virtual std::string Start(const v1::Job&) const { return ""; }

  // Of an ended job: its result in a line (empty: all of the job is shown), remarks on it, and the
  // command that may follow, with a reason in parentheses.
  virtual std::string EndLine(const v1::Job& job) const;
  virtual std::vector<std::string> Remarks(const v1::Job&) const { return {}; }
  virtual std::string NextCommand(const v1::Job&) const { return ""; }

  // The files that `job fetch` brings; of kFilesMeanwhile those that are there so far.
  virtual JobOutput OutputOf(const v1::Job&) const { return JobOutput::kOneFile; }
  virtual std::vector<JobFile> FilesOf(const v1::Job&) const { return {}; }
  // Of kOneFile: what the name of the file ends in, such as ".glb"; empty while it is not known.
  virtual std::string FileEnding(const v1::Job& job) const;

 private:
  const std::string_view word_, noun_;
  const int invalid_code_;
};

// The kind of a job.
const KindView& KindViewOf(const v1::Job& job);
// The words of all kinds.
std::vector<std::string> JobKindWords();

const KindView& TrainingKindView();
const KindView& RenderKindView();
const KindView& PoseKindView();
const KindView& ExportKindView();

// What names of movies end in: ".webm" with alpha, else ".mp4".
std::string_view MovieEnding(const v1::RenderSpec& spec);
// "about 5.6 MB", "at most 12.3 MB"; empty where nothing is known before the file is made.
std::string ExpectedSizeText(const v1::ExportStatus& status);

}  // namespace nerf
