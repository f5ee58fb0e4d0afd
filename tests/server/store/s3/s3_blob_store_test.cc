// The blob store on a real S3 server, which checks signatures: OpenStack Swift. Skipped where that
// is not installed.
#include "server/store/s3/s3_blob_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "common/rpc/signed_transfer.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/swift.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::IsEmpty;
using testing::SizeIs;

constexpr char kS3Upload[] = "0b8f2c9e-5a4d-4c3b-9a27-6f1e0d2c3b4a";

class S3BlobStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    s3_ = OptionsOfSwift();
    if (s3_.endpoint.empty()) GTEST_SKIP() << "OpenStack Swift is not installed";
    options_.on_damaged = [this](const std::string& sha256) { damaged_.push_back(sha256); };
    options_.on_deleted = [this](const std::string& sha256) { deleted_.push_back(sha256); };
    Reopen();
    client_ = std::make_unique<S3Client>(s3_, &signing_clock_, &random_);
  }
  void Reopen() {
    store_.reset();
    auto store = S3BlobStore::Open(dir_ / "server", s3_, options_, &clock_, &random_);
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
  }
  static std::string Content(size_t n_bytes, int seed) {
    std::string content(n_bytes, '\0');
    for (size_t i = 0; i < n_bytes; ++i) content[i] = static_cast<char>(i * 7 + i / 251 + seed);
    return content;
  }
  absl::Status Upload(const BlobRef& blob, const std::string& content) {
    for (size_t offset = 0; offset < content.size(); offset += 1 << 20) {
      const auto chunk = std::string_view(content).substr(offset, 1 << 20);
      auto status = store_->Append(kS3Upload, blob, offset, chunk, Uploader::kClient,
                                   PresentBlob::kCompletesUpload);
      if (!status.ok()) return status.status();
    }
    return store_->Finish(kS3Upload, blob, Uploader::kClient, PresentBlob::kCompletesUpload)
        .status();
  }
  // Puts other bytes in the place of an object, behind the store's back.
  void Replace(const BlobRef& blob, const std::string& content) {
    std::ofstream(dir_ / "other", std::ios::binary) << content;
    ASSERT_THAT(client_->PutFile("blobs/" + blob.sha256, dir_ / "other", content.size(),
                                 Sha256Hex(content)),
                IsOk());
  }
  bool IsMissing(const BlobRef& blob) { return !store_->FindMissing({&blob, 1}).empty(); }
  std::vector<std::string> Keys() {
    std::vector<std::string> keys;
    const auto objects = client_->List("");
    EXPECT_THAT(objects, IsOk());
    for (const S3Object& object : *objects) keys.push_back(object.key);
    return keys;
  }

  TempDir dir_;
  FakeClock clock_;
  RealClock signing_clock_;
  FakeRandom random_;
  S3Options s3_;
  BlobStoreOptions options_;
  std::vector<std::string> damaged_, deleted_;
  std::unique_ptr<S3BlobStore> store_;
  std::unique_ptr<S3Client> client_;
};

TEST_F(S3BlobStoreTest, UploadsInOnePieceAndInPartsAreReadBackAndOutliveTheProcess) {
  for (const size_t n_bytes : {size_t{0}, size_t{1}, size_t{5} << 20, (size_t{11} << 20) + 3}) {
    const std::string content = Content(n_bytes, 1);
    const BlobRef blob{Sha256Hex(content), content.size()};
    EXPECT_TRUE(IsMissing(blob));
    ASSERT_THAT(Upload(blob, content), IsOk()) << n_bytes;
    EXPECT_FALSE(IsMissing(blob));
    EXPECT_THAT(store_->Read(blob, 0, n_bytes), IsOkAndHolds(content));
    EXPECT_THAT(store_->Read(blob, n_bytes / 2, 3), IsOkAndHolds(content.substr(n_bytes / 2, 3)));
    Reopen();
    EXPECT_FALSE(IsMissing(blob));
    EXPECT_THAT(store_->Read(blob, 0, n_bytes), IsOkAndHolds(content));
  }
  EXPECT_EQ(store_->Stats().n_blobs, 4u);
  EXPECT_THAT(Keys(), SizeIs(4));
  EXPECT_TRUE(fs::is_empty(dir_ / "server/uploads"));
}

TEST_F(S3BlobStoreTest, WrongBytesAreRefusedByUsAndByTheServer) {
  const BlobRef blob{Sha256Hex("right"), 5};
  EXPECT_THAT(Upload(blob, "wrong"),
              FailsWith(StatusCode::kInvalidArgument, reason::kFieldInvalid));
  std::ofstream(dir_ / "other") << "wrong";
  EXPECT_THAT(client_->PutFile("blobs/" + blob.sha256, dir_ / "other", 5, blob.sha256),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(S3BlobStoreTest, SignedUrlsMoveOneBlobPastTheStore) {
  const std::string content = Content(300'000, 5);
  const BlobRef blob{Sha256Hex(content), content.size()};
  EXPECT_EQ(store_->SignWrite(blob)->url, "");  // they are off
  s3_.signs_urls = true;
  Reopen();
  EXPECT_THAT(store_->SignRead(blob).status(), StatusIs(StatusCode::kNotFound));
  auto to = store_->SignWrite(blob);
  ASSERT_THAT(to, IsOk());
  const auto put = [&](const std::string& url, const std::string& bytes) {
    return WriteSigned(url, to->headers, bytes.size(),
                       [&](uint64_t offset, size_t n) { return bytes.substr(offset, n); }, {});
  };
  // For this blob alone, and for these bytes alone.
  std::string other_url = to->url;
  other_url.replace(other_url.find(blob.sha256), 64, Sha256Hex("other"));
  EXPECT_THAT(put(other_url, content), StatusIs(StatusCode::kUnavailable, "403"));
  EXPECT_THAT(put(to->url, Content(300'000, 6)), StatusIs(StatusCode::kUnavailable));
  EXPECT_THAT(store_->Adopt(blob).status(), StatusIs(StatusCode::kNotFound));
  EXPECT_TRUE(IsMissing(blob));

  ASSERT_THAT(put(to->url, content), IsOk());
  EXPECT_THAT(store_->Adopt({blob.sha256, 299'999}).status(), StatusIs(StatusCode::kNotFound));
  EXPECT_TRUE(IsMissing(blob));
  EXPECT_EQ(*store_->Adopt(blob), Stored::kNew);
  EXPECT_EQ(*store_->Adopt(blob), Stored::kWasPresent);
  EXPECT_FALSE(IsMissing(blob));
  EXPECT_EQ(store_->Stats().n_blobs, 1u);

  std::string received;
  const auto take = [&](std::string_view bytes) {
    received += bytes;
    return absl::OkStatus();
  };
  const auto from = store_->SignRead(blob);
  ASSERT_THAT(from, IsOk());
  ASSERT_THAT(ReadSigned(from->url, take, {}), IsOk());
  EXPECT_EQ(received, content);
  EXPECT_THAT(ReadSigned(from->url + "0", take, {}), StatusIs(StatusCode::kUnavailable, "403"));
  EXPECT_EQ(received, content);
  // A damaged one gets no URL, and is healed by one.
  Replace(blob, Content(300'000, 7));
  EXPECT_THAT(store_->Read(blob, 0, 300'000),
              FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_THAT(store_->SignRead(blob).status(),
              FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  to = store_->SignWrite(blob);
  ASSERT_THAT(put(to->url, content), IsOk());
  EXPECT_EQ(*store_->Adopt(blob), Stored::kNew);
  EXPECT_THAT(store_->Read(blob, 0, 300'000), IsOkAndHolds(content));
  EXPECT_THAT(Keys(), SizeIs(1));
}

// NERF_SIGNED_MIB=1024 is the long form.
TEST_F(S3BlobStoreTest, SignedUrlsAreAsFastAsTheServer) {
  const char* const mib = std::getenv("NERF_SIGNED_MIB");
  const std::string content = Content((mib == nullptr ? size_t{8} : std::stoul(mib)) << 20, 8);
  const BlobRef blob{Sha256Hex(content), content.size()};
  std::ofstream(dir_ / "file", std::ios::binary) << content;
  s3_.signs_urls = true;
  Reopen();
  const auto seconds = [](const std::function<void()>& transfer) {
    const absl::Time begin = absl::Now();
    transfer();
    return absl::ToDoubleSeconds(absl::Now() - begin);
  };
  const auto curl = [&](const std::string& arguments) {
    EXPECT_EQ(std::system(("curl -sSf -H Expect: " + arguments).c_str()), 0);
  };
  const auto to = store_->SignWrite(blob);
  ASSERT_THAT(to, IsOk());
  std::string lines;
  for (const std::string& header : to->headers) lines += " -H '" + header + "'";
  const auto put = [&] {
    EXPECT_THAT(
        WriteSigned(to->url, to->headers, content.size(),
                    [&](uint64_t offset, size_t n) { return content.substr(offset, n); }, {}),
        IsOk());
  };
  const double up_by_curl =
      seconds([&] { curl("-T " + (dir_ / "file") + lines + " '" + to->url + "'"); });
  const double up = seconds(put);
  EXPECT_EQ(*store_->Adopt(blob), Stored::kNew);
  const auto from = store_->SignRead(blob);
  ASSERT_THAT(from, IsOk());
  const double down_by_curl =
      seconds([&] { curl("-o " + (dir_ / "copy") + " '" + from->url + "'"); });
  size_t n_received = 0;
  const double down = seconds([&] {
    EXPECT_THAT(ReadSigned(from->url,
                           [&](std::string_view bytes) {
                             n_received += bytes.size();
                             return absl::OkStatus();
                           },
                           {}),
                IsOk());
  });
  EXPECT_EQ(n_received, content.size());
  const double megabytes = static_cast<double>(content.size()) / 1e6;
  std::printf("%.0f MB: up %.0f MB/s, by curl %.0f; down %.0f MB/s, by curl %.0f\n", megabytes,
              megabytes / up, megabytes / up_by_curl, megabytes / down, megabytes / down_by_curl);
}

TEST_F(S3BlobStoreTest, WrongKeyOrBucketIsSaidAtTheStart) {
  S3Options wrong = s3_;
  wrong.keys.secret_key = "guess";
  EXPECT_THAT(S3BlobStore::Open(dir_ / "server", wrong, options_, &clock_, &random_).status(),
              StatusIs(StatusCode::kUnavailable, "403 SignatureDoesNotMatch"));
  wrong = s3_;
  wrong.bucket = "nowhere";
  EXPECT_THAT(S3BlobStore::Open(dir_ / "server", wrong, options_, &clock_, &random_).status(),
              StatusIs(StatusCode::kUnavailable, "NoSuchBucket"));
}

TEST_F(S3BlobStoreTest, DamagedObjectIsFoundByAReadAndHealedByTheNextUpload) {
  const std::string content = Content(3'000'000, 2);
  const auto lost = FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged);
  const BlobRef blob{Sha256Hex(content), content.size()};
  ASSERT_THAT(Upload(blob, content), IsOk());
  std::string flipped = content;
  flipped[2'500'000] ^= 4;
  Replace(blob, flipped);
  EXPECT_FALSE(IsMissing(blob)) << "nobody has read it";
  EXPECT_THAT(store_->Read(blob, 10, 5).status(), lost);
  EXPECT_THAT(damaged_, testing::ElementsAre(blob.sha256));
  EXPECT_TRUE(IsMissing(blob));
  EXPECT_THAT(Keys(), testing::ElementsAre("damaged/" + blob.sha256));
  Reopen();
  EXPECT_TRUE(IsMissing(blob));
  EXPECT_THAT(store_->Read(blob, 0, 5).status(), lost);
  ASSERT_THAT(Upload(blob, content), IsOk());
  EXPECT_THAT(store_->Read(blob, 0, content.size()), IsOkAndHolds(content));
  EXPECT_THAT(Keys(), testing::ElementsAre("blobs/" + blob.sha256));
  EXPECT_EQ(store_->Stats().n_blobs, 1u);
}

TEST_F(S3BlobStoreTest, TruncatedOrLostObjectIsFoundByARead) {
  const BlobRef cut = *store_->Put(Content(3000, 3), Uploader::kWorker);
  Replace(cut, Content(1000, 3));
  EXPECT_THAT(store_->Read(cut, 0, 3000).status(),
              FailsWith(StatusCode::kDataLoss, reason::kBlobDamaged));
  EXPECT_TRUE(IsMissing(cut));
  const BlobRef gone = *store_->Put("gone", Uploader::kWorker);
  ASSERT_THAT(client_->Delete("blobs/" + gone.sha256), IsOk());
  EXPECT_THAT(store_->Read(gone, 0, 4).status(),
              FailsWith(StatusCode::kNotFound, reason::kResourceNotFound));
  EXPECT_TRUE(IsMissing(gone));
}

TEST_F(S3BlobStoreTest, SweepDeletesWhatNothingNamesAfterTheGraceAndWhatWasReleasedAtOnce) {
  const BlobRef kept = *store_->Put("kept", Uploader::kClient),
                released = *store_->Put("released", Uploader::kClient),
                young = *store_->Put("young", Uploader::kClient);
  store_->Release(released);
  clock_.Advance(options_.release_grace + absl::Seconds(1));
  EXPECT_THAT(store_->Collect({kept.sha256}), IsOkAndHolds(1u));
  EXPECT_THAT(deleted_, testing::ElementsAre(released.sha256));
  EXPECT_FALSE(IsMissing(young));
  clock_.Advance(options_.collect_grace);
  ASSERT_THAT(store_->Collect({kept.sha256}), IsOkAndHolds(1u));
  EXPECT_THAT(Keys(), testing::ElementsAre("blobs/" + kept.sha256));
  EXPECT_TRUE(IsMissing(young));
  EXPECT_EQ(store_->Stats().n_blobs, 1u);
}

TEST_F(S3BlobStoreTest, NothingIsDeletedWhereAnotherProcessMayWrite) {
  bool may_delete = false;
  options_.may_delete = [&] { return may_delete; };
  Reopen();
  const BlobRef first = *store_->Put("first", Uploader::kWorker),
                second = *store_->Put("second", Uploader::kWorker);
  clock_.Advance(options_.collect_grace);
  const auto refused = FailsWith(StatusCode::kUnavailable, reason::kNotReady);
  EXPECT_THAT(store_->Collect({}), refused);
  EXPECT_THAT(store_->Delete(second), refused);
  EXPECT_EQ(Keys().size(), 2u);
  may_delete = true;
  ASSERT_THAT(store_->Collect({}), IsOk());
  EXPECT_THAT(Keys(), IsEmpty());
}

// The answer to a put was lost, or somebody else has written to the bucket.
TEST_F(S3BlobStoreTest, ObjectThatMemoryDoesNotKnowIsFoundWithinADayAndCollected) {
  const BlobRef blob{Sha256Hex("orphan"), 6};
  Replace(blob, "orphan");
  EXPECT_TRUE(IsMissing(blob));
  for (int day = 0; day < 2; ++day) {
    clock_.Advance(absl::Hours(24) + absl::Seconds(1));
    ASSERT_THAT(store_->Collect({}), IsOk());
  }
  EXPECT_THAT(Keys(), IsEmpty());
}

TEST_F(S3BlobStoreTest, ServerThatIsAwayIsUnavailableAndNothingIsForgotten) {
  const BlobRef blob = *store_->Put("content", Uploader::kClient);
  S3Options away = s3_;
  away.endpoint = "http://127.0.0.1:1";
  away.max_attempts = 2;
  EXPECT_THAT(S3BlobStore::Open(dir_ / "server", away, options_, &clock_, &random_).status(),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  Reopen();
  EXPECT_FALSE(IsMissing(blob));
}

TEST(S3OptionsTest, UrlEndpointAndKeysAreCheckedByName) {
  const auto parse = [](const std::string& url, const std::string& endpoint, bool keys = true) {
    return ParseS3Options(url, endpoint, [keys](const char* name) {
      const bool is_key = std::string_view(name).find("KEY") != std::string_view::npos;
      return std::string(keys && is_key ? "k" : "");
    });
  };
  const auto good = parse("s3://nerf/team/a", "http://127.0.0.1:9000");
  ASSERT_THAT(good, IsOk());
  EXPECT_EQ(good->bucket + " " + good->prefix, "nerf team/a/");
  EXPECT_EQ(parse("s3://nerf", "")->endpoint, "https://s3.us-east-1.amazonaws.com");
  EXPECT_EQ(parse("s3://nerf", "")->prefix, "");
  for (const char* url : {"", "nerf", "s3://", "s3://ab", "s3://Nerf", "s3://nerf//a",
                          "s3://nerf/a?b", "s3://nerf/\xff", "https://nerf/a"}) {
    EXPECT_THAT(parse(url, "").status(), StatusIs(StatusCode::kInvalidArgument, "--blobs")) << url;
  }
  for (const char* endpoint : {"127.0.0.1:9000", "http://", "https://host/path", "ftp://host",
                               "https://me@host", "https://a b"}) {
    EXPECT_THAT(parse("s3://nerf", endpoint).status(),
                StatusIs(StatusCode::kInvalidArgument, "--s3-endpoint"))
        << endpoint;
  }
  EXPECT_THAT(parse("s3://nerf", "", /*keys=*/false).status(),
              StatusIs(StatusCode::kInvalidArgument, "AWS_ACCESS_KEY_ID"));
}

}  // namespace
}  // namespace nerf
