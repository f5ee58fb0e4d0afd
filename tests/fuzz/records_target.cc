#include <string>
#include <vector>

#include "common/messages/deterministic_bytes.h"
#include "nerf/internal/store.pb.h"
#include "server/queue/jobs/job_change.h"
#include "server/queue/kinds/kind_policy.h"
#include "server/queue/records/job_message.h"
#include "server/queue/records/resource_messages.h"
#include "server/queue/records/stored_job.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/sample_jobs.h"

namespace nerf {
namespace {

// The first byte says which record follows.
enum RecordKind { kJob, kEvent, kScene, kModel, kProject, kCurve, kRecordKinds };

std::string Row(RecordKind kind, const google::protobuf::MessageLite& record) {
  return static_cast<char>(kind) + DeterministicBytes(record);
}

std::vector<std::string> RecordSeeds() {
  std::vector<std::string> seeds;
  for (const Job& job : SampleJobs()) {
    seeds.push_back(Row(kJob, ToRecord(job)));
    JobEvent event = MakeJobEvent(job, JobEventKind::kStateChanged, 0, absl::UnixEpoch());
    seeds.push_back(Row(kEvent, ToRecord(event)));
  }
  SceneRecord scene;
  scene.key = {"default", "s"};
  scene.files = {{"a.png", SampleBlob("a")}};
  seeds.push_back(Row(kScene, ToRecord(scene)));
  ModelRecord model;
  model.key = {"default", "m"};
  model.job = "j";
  model.blob = SampleBlob("m");
  seeds.push_back(Row(kModel, ToRecord(model)));
  ProjectRecord project;
  project.quota.max_renders = 4;
  project.retention.model_age = absl::Hours(1);
  seeds.push_back(Row(kProject, ToRecord(project)));
  internal::CurveRecord curve;
  curve.add_points()->set_step(7);
  seeds.push_back(Row(kCurve, curve));
  return seeds;
}

// Reads a record twice: as it is, and as it is then written.
template <typename Message, typename Record>
std::string CheckRecord(const std::string& bytes, Record first, Record second) {
  Message message;
  if (!message.ParseFromString(bytes) || !FromRecord(message, &first).ok()) return "";
  const Message written = ToRecord(first);
  if (!FromRecord(written, &second).ok()) return "what was written is not read";
  if (!AreEqual(ToRecord(second), written)) return "what was written is read as something else";
  return "";
}

Job NewJob() {
  Job job;
  job.key = {"default", "j"};
  return job;
}

std::string CheckRow(std::string_view input) {
  if (input.empty()) return "";
  const std::string bytes(input.substr(1));
  switch (static_cast<uint8_t>(input[0]) % kRecordKinds) {
    case kJob: {
      internal::JobRecord record;
      Job job = NewJob();
      if (record.ParseFromString(bytes) && FromRecord(record, &job).ok()) {
        JobMessage(job, /*whole=*/true);
        BytesOf(job);
        BlobsOf(job);
        CapabilityOf(job);
      }
      return CheckRecord<internal::JobRecord>(bytes, NewJob(), NewJob());
    }
    case kEvent:
      return CheckRecord<internal::EventRecord>(bytes, JobEvent(), JobEvent());
    case kScene:
      return CheckRecord<internal::SceneRecord>(bytes, SceneRecord(), SceneRecord());
    case kModel: {
      ModelRecord model;
      model.key = {"default", "m"};
      return CheckRecord<internal::ModelRecord>(bytes, model, model);
    }
    case kProject:
      return CheckRecord<internal::ProjectRecord>(bytes, ProjectRecord(), ProjectRecord());
    default: {
      internal::CurveRecord record;
      if (!record.ParseFromString(bytes)) return "";
      TrainingCurve curve(record);
      v1::TrainingMetrics point;
      point.set_step(7);
      curve.Add(point);
      curve.AddMissing({point});
      return "";
    }
  }
}

}  // namespace

const FuzzTarget kRecordsTarget = {"records", RecordSeeds, CheckRow};

}  // namespace nerf
