// The blob client against a small in-process ByteStream server that can cut transfers.
#include "common/rpc/blob_client.h"
#include "common/messages/blob_ref.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>

#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "common/files/file_io.h"
#include "common/mutex.h"
#include "google/bytestream/bytestream.grpc.pb.h"
#include "nerf/v1/blob_service.grpc.pb.h"
#include "tests/server/store/s3/scripted_http_server.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class FakeByteStream final : public google::bytestream::ByteStream::Service,
                             public v1::BlobService::Service {
 public:
  grpc::Status Write(grpc::ServerContext* context,
                     grpc::ServerReader<google::bytestream::WriteRequest>* reader,
                     google::bytestream::WriteResponse* response) override {
    google::bytestream::WriteRequest request;
    std::string resource;
    {
      MutexLock lock(mu_);
      if (refusals > 0) {
        --refusals;
        return {grpc::StatusCode::UNAVAILABLE, "restarting"};
      }
    }
    while (reader->Read(&request)) {
      MutexLock lock(mu_);
      if (!request.resource_name().empty()) resource = request.resource_name();
      resources.insert(resource);
      largest_chunk = std::max(largest_chunk, request.data().size());
      std::string& partial = partials[resource];
      if (request.write_offset() != static_cast<int64_t>(partial.size())) {
        return {grpc::StatusCode::INVALID_ARGUMENT, "bad offset"};
      }
      partial += request.data();
      received += request.data().size();
      if (cut_after > 0 && received >= cut_after) {
        cut_after = 0;
        return {grpc::StatusCode::UNAVAILABLE, "cut"};
      }
      if (request.finish_write()) {
        blobs[resource.substr(resource.find("blobs/"))] = partial;
        response->set_committed_size(static_cast<int64_t>(partial.size()));
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status QueryWriteStatus(grpc::ServerContext* context,
                                const google::bytestream::QueryWriteStatusRequest* request,
                                google::bytestream::QueryWriteStatusResponse* response) override {
    MutexLock lock(mu_);
    const std::string name =
        request->resource_name().substr(request->resource_name().find("blobs/"));
    if (blobs.contains(name)) {
      response->set_complete(true);
      response->set_committed_size(static_cast<int64_t>(blobs[name].size()));
      return grpc::Status::OK;
    }
    const auto it = partials.find(request->resource_name());
    if (it == partials.end()) return {grpc::StatusCode::NOT_FOUND, "no upload"};
    response->set_committed_size(static_cast<int64_t>(it->second.size()));
    return grpc::Status::OK;
  }
  grpc::Status Read(grpc::ServerContext* context, const google::bytestream::ReadRequest* request,
                    grpc::ServerWriter<google::bytestream::ReadResponse>* writer) override {
    std::string bytes;
    bool cut = false;
    {
      MutexLock lock(mu_);
      if (refusals > 0) {
        --refusals;
        return {grpc::StatusCode::UNAVAILABLE, "restarting"};
      }
      const auto it = blobs.find(request->resource_name());
      if (it == blobs.end()) return {grpc::StatusCode::NOT_FOUND, "no blob"};
      bytes = it->second.substr(static_cast<size_t>(request->read_offset()));
      std::swap(cut, cut_reads);
    }
    if (cut) bytes.resize(bytes.size() / 2);
    for (size_t i = 0; i < bytes.size(); i += 1000) {
      google::bytestream::ReadResponse response;
      response.set_data(bytes.substr(i, 1000));
      writer->Write(response);
    }
    if (cut) return {grpc::StatusCode::UNAVAILABLE, "cut"};
    return grpc::Status::OK;
  }
  grpc::Status FindMissingBlobs(grpc::ServerContext* context,
                                const v1::FindMissingBlobsRequest* request,
                                v1::FindMissingBlobsResponse* response) override {
    MutexLock lock(mu_);
    ++find_calls;
    for (const auto& [key, value] : context->client_metadata()) {
      if (std::string(key.data(), key.size()) == "authorization") {
        authorization = std::string(value.data(), value.size());
      }
    }
    for (const v1::BlobRef& blob : request->blobs()) {
      if (!blobs.contains(BlobResourceName(blob))) *response->add_missing() = blob;
    }
    return grpc::Status::OK;
  }

  grpc::Status CheckBlob(grpc::ServerContext*, const v1::CheckBlobRequest* request,
                         v1::CheckBlobResponse*) override {
    MutexLock lock(mu_);
    checked.push_back(request->parent() + " " + request->blob().sha256());
    return check_result;
  }

  grpc::Status SignBlobUrl(grpc::ServerContext*, const v1::SignBlobUrlRequest* request,
                           v1::SignBlobUrlResponse* response) override {
    MutexLock lock(mu_);
    if (signed_place.empty()) return {grpc::StatusCode::UNIMPLEMENTED, "an older server"};
    response->set_url(signed_place + (request->write() ? "/to" : "/from"));
    if (request->write()) response->add_headers("x-amz-content-sha256: digest");
    return grpc::Status::OK;
  }
  grpc::Status AdoptBlob(grpc::ServerContext*, const v1::AdoptBlobRequest* request,
                         v1::AdoptBlobResponse*) override {
    MutexLock lock(mu_);
    adopted.push_back(request->blob().sha256());
    return adopt_result;
  }

  Mutex mu_;
  std::string signed_place;  // where URLs lead
  std::vector<std::string> adopted;
  grpc::Status adopt_result;
  std::vector<std::string> checked;
  grpc::Status check_result;
  std::map<std::string, std::string> partials, blobs;
  std::set<std::string> resources;
  size_t received = 0, cut_after = 0, largest_chunk = 0;
  int refusals = 0;  // of writes and reads, to come
  bool cut_reads = false;
  int find_calls = 0;
  std::string authorization;
};

class BlobClientTest : public ::testing::Test {
 protected:
  BlobClientTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(static_cast<google::bytestream::ByteStream::Service*>(&service_));
    builder.RegisterService(static_cast<v1::BlobService::Service*>(&service_));
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }
  ~BlobClientTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  BlobClient Client(const std::string& writer_id = "me") {
    return BlobClient(
        channel_,
        {.token = "secret", .writer_id = writer_id, .first_retry_pause = absl::Milliseconds(10)});
  }
  static std::string Bytes(size_t size) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
    return bytes;
  }

  FakeByteStream service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  TempDir dir_;
};

TEST_F(BlobClientTest, UploadsInChunksAndDownloadsTheSameBytes) {
  for (const size_t size : {size_t{0}, size_t{1}, kBlobChunkBytes, 3 * kBlobChunkBytes + 17}) {
    const std::string bytes = Bytes(size);
    const v1::BlobRef blob = BlobOfBytes(bytes);
    BlobClient client = Client();
    ASSERT_THAT(client.UploadBytes(bytes, blob), IsOk()) << size;
    ASSERT_THAT(client.DownloadToFile(blob, dir_ / "copy"), IsOk()) << size;
    EXPECT_THAT(ReadFile(dir_ / "copy", 1 << 20), IsOkAndHolds(bytes));
  }
  EXPECT_EQ(service_.largest_chunk, kBlobChunkBytes);
}

TEST_F(BlobClientTest, CutUploadGoesOnFromTheCommittedSize) {
  const std::string bytes = Bytes(10 * kBlobChunkBytes);
  std::ofstream(dir_ / "file", std::ios::binary) << bytes;
  service_.cut_after = 4 * kBlobChunkBytes;
  const auto blob = BlobOfFile(dir_ / "file");
  ASSERT_THAT(blob, IsOk());
  uint64_t progress = 0;
  ASSERT_THAT(Client().UploadFile(dir_ / "file", *blob, {}, [&](uint64_t n) { progress = n; }),
              IsOk());
  EXPECT_EQ(service_.received, bytes.size());
  EXPECT_EQ(progress, bytes.size());
  EXPECT_EQ(service_.blobs[BlobResourceName(*blob)], bytes);
}

TEST_F(BlobClientTest, TransfersAreTriedWithGrowingPausesWhileTheServerIsAway) {
  const std::string bytes = Bytes(1000);
  const v1::BlobRef blob = BlobOfBytes(bytes);
  const absl::Duration pauses = absl::Milliseconds(10 + 20 + 40 + 80 + 160);
  service_.refusals = 5;
  absl::Time start = absl::Now();
  EXPECT_THAT(Client().UploadBytes(bytes, blob), IsOk());
  EXPECT_GE(absl::Now() - start, pauses);
  service_.refusals = 5;
  start = absl::Now();
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"), IsOk());
  EXPECT_GE(absl::Now() - start, pauses);
  service_.refusals = 6;
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(BlobClientTest, TransferIsNotTriedAgainWhereNoTimeIsLeft) {
  const v1::BlobRef blob = BlobOfBytes("hello");
  service_.blobs[BlobResourceName(blob)] = "hello";
  service_.refusals = 1;
  BlobClient client(channel_, {.first_retry_pause = absl::Hours(1),
                               .time_left = [] { return absl::Seconds(20); }});
  EXPECT_THAT(client.DownloadToFile(blob, dir_ / "copy"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(BlobClientTest, WhatTheSinkRefusesIsNotAskedForAgain) {
  const v1::BlobRef blob = BlobOfBytes("hello");
  service_.blobs[BlobResourceName(blob)] = "hello";
  int n_chunks = 0;
  const absl::Status status = Client().Read(blob, [&](std::string_view) {
    ++n_chunks;
    return absl::UnavailableError("disk full");
  });
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, "disk full"));
  EXPECT_EQ(n_chunks, 1);
}

TEST_F(BlobClientTest, AnotherProcessOfTheSameWriterUsesTheSameUpload) {
  const std::string bytes = Bytes(10);
  const v1::BlobRef blob = BlobOfBytes(bytes);
  ASSERT_THAT(Client("one").UploadBytes(bytes, blob), IsOk());
  service_.blobs.clear();
  service_.partials.clear();
  ASSERT_THAT(Client("one").UploadBytes(bytes, blob), IsOk());
  EXPECT_THAT(service_.resources, SizeIs(1));
  service_.blobs.clear();
  ASSERT_THAT(Client("two").UploadBytes(bytes, blob), IsOk());
  EXPECT_THAT(service_.resources, SizeIs(2));
}

TEST_F(BlobClientTest, PresentBlobIsNotSentAgain) {
  const std::string bytes = Bytes(100);
  ASSERT_THAT(Client("one").UploadBytes(bytes, BlobOfBytes(bytes)), IsOk());
  ASSERT_THAT(Client("two").UploadBytes(bytes, BlobOfBytes(bytes)), IsOk());
  EXPECT_EQ(service_.received, 100u);
}

TEST_F(BlobClientTest, FileThatShrankIsAnErrorNotAHang) {
  std::ofstream(dir_ / "file") << "short";
  EXPECT_THAT(Client().UploadFile(dir_ / "file", BlobOfBytes("longer than that")),
              StatusIs(absl::StatusCode::kInvalidArgument, "ends at byte 5"));
}

TEST_F(BlobClientTest, CutDownloadGoesOnWhereItWasCut) {
  const std::string bytes = Bytes(50'000);
  const v1::BlobRef blob = BlobOfBytes(bytes);
  service_.blobs[BlobResourceName(blob)] = bytes;
  service_.cut_reads = true;
  ASSERT_THAT(Client().DownloadToFile(blob, dir_ / "copy"), IsOk());
  EXPECT_THAT(ReadFile(dir_ / "copy", 1 << 20), IsOkAndHolds(bytes));
}

TEST_F(BlobClientTest, WrongBytesAreDataLossAndLeaveNoFile) {
  const v1::BlobRef blob = BlobOfBytes("hello");
  for (const std::string bytes : {"jello", "hell", "hello!"}) {
    service_.blobs[BlobResourceName(blob)] = bytes;
    EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
                StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  }
}

TEST_F(BlobClientTest, ServerIsToldOfWrongBytes) {
  const v1::BlobRef blob = BlobOfBytes("hello");
  service_.blobs[BlobResourceName(blob)] = "jello";
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
              StatusIs(absl::StatusCode::kDataLoss, "another digest"));
  service_.check_result = {grpc::StatusCode::DATA_LOSS, "damaged on the server's disk"};
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
              StatusIs(absl::StatusCode::kDataLoss, "damaged on the server's disk"));
  EXPECT_EQ(service_.checked, std::vector<std::string>(2, " " + blob.sha256()));
}

TEST_F(BlobClientTest, SignedUrlsMoveBytesPastTheServerAndTheRestGoesThroughIt) {
  using Http = ScriptedHttpServer;
  Http s3;
  service_.signed_place = s3.endpoint();
  const std::string bytes = Bytes((1 << 20) + 5);
  const v1::BlobRef blob = BlobOfBytes(bytes);
  s3.Answer({Http::Reply(200, bytes)});
  ASSERT_THAT(Client().DownloadToFile(blob, dir_ / "copy"), IsOk());
  // The server has it in this case alone: of what the URL did not bring.
  service_.blobs[BlobResourceName(blob)] = bytes;
  for (const std::string& answer :
       {Http::Reply(200, bytes.substr(0, 700'000), "", static_cast<int64_t>(bytes.size())),
        Http::Error(403, "AccessDenied", "late"), Http::Error(503, "SlowDown", "later"),
        Http::Reply(302, "", "Location: " + s3.endpoint() + "/other\r\n"), std::string()}) {
    s3.Answer({answer});
    ASSERT_THAT(Client().DownloadToFile(blob, dir_ / "copy"), IsOk()) << answer.substr(0, 99);
    EXPECT_THAT(ReadFile(dir_ / "copy", 2 << 20), IsOkAndHolds(bytes));
    EXPECT_THAT(s3.requests(), SizeIs(1));
  }
  s3.Answer({Http::Reply(200, bytes + "more")});
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
              StatusIs(absl::StatusCode::kDataLoss, "longer than its name says"));
  std::string wrong = bytes;
  wrong[9] ^= 1;
  s3.Answer({Http::Reply(200, wrong)});
  EXPECT_THAT(Client().DownloadToFile(blob, dir_ / "copy"),
              StatusIs(absl::StatusCode::kDataLoss, "another digest"));
  EXPECT_THAT(service_.checked, SizeIs(1));

  service_.blobs.clear();
  s3.Answer({Http::Reply(200, "")});
  ASSERT_THAT(Client().UploadBytes(bytes, blob), IsOk());
  ASSERT_THAT(s3.requests(), SizeIs(1));
  EXPECT_EQ(s3.requests()[0].method + s3.requests()[0].target, "PUT/to");
  EXPECT_EQ(s3.requests()[0].headers["x-amz-content-sha256"], "digest");
  EXPECT_EQ(s3.requests()[0].body, bytes);
  EXPECT_THAT(service_.adopted, ElementsAre(blob.sha256()));
  EXPECT_EQ(service_.received, 0u);
  // Where the store refuses it, and where the server does not find it.
  s3.Answer({Http::Error(403, "AccessDenied", "late")});
  ASSERT_THAT(Client().UploadBytes(bytes, blob), IsOk());
  EXPECT_EQ(service_.received, bytes.size());
  service_.blobs.clear();
  service_.partials.clear();
  service_.adopt_result = {grpc::StatusCode::NOT_FOUND, "not there"};
  s3.Answer({Http::Reply(200, "")});
  ASSERT_THAT(Client().UploadBytes(bytes, blob), IsOk());
  EXPECT_EQ(service_.received, 2 * bytes.size());
}

TEST_F(BlobClientTest, StoppedTransfersEndCancelled) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THAT(Client().UploadBytes("x", BlobOfBytes("x"), stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(Client().Read(
                  BlobOfBytes("x"), [](auto) { return absl::OkStatus(); }, stop.get_token()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(BlobClientTest, FindMissingAsksInPiecesAndCarriesTheToken) {
  std::vector<v1::BlobRef> blobs(10'001, BlobOfBytes("x"));
  blobs.back() = BlobOfBytes("y");
  service_.blobs[BlobResourceName(BlobOfBytes("x"))] = "x";
  const auto missing = Client().FindMissing(blobs);
  ASSERT_THAT(missing, IsOk());
  ASSERT_THAT(*missing, SizeIs(1));
  EXPECT_EQ((*missing)[0].sha256(), BlobOfBytes("y").sha256());
  EXPECT_EQ(service_.find_calls, 2);
  EXPECT_EQ(service_.authorization, "Bearer secret");
}

TEST_F(BlobClientTest, MalformedReferencesAreRefusedByField) {
  v1::BlobRef blob = BlobOfBytes("x");
  blob.set_sha256("XYZ");
  blob.set_size_bytes(1.5);
  const absl::Status status = Client().UploadBytes("x", blob);
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument, "FIELD_INVALID"));
  EXPECT_THAT(GetProblems(status), SizeIs(2));
}

}  // namespace
}  // namespace nerf
