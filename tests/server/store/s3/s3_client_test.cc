// Requests, signatures and retries of the S3 client. The server answers what each test wrote down;
// s3_blob_store_test has a real one.
#include "server/store/s3/s3_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "common/error_reason.h"
#include "common/files/sha256.h"
#include "server/store/s3/s3_signer.h"
#include "server/store/s3/s3_xml.h"
#include "tests/server/store/s3/scripted_http_server.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_random.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Http = ScriptedHttpServer;

constexpr char kEmptySha[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
TEST(S3SignerTest, SignaturesAreThoseOfAmazonsExamples) {
  const S3Keys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  const absl::Time day = absl::FromUnixSeconds(1'369'353'600);  // 2013-05-24
  S3Request request{"GET", "examplebucket.s3.amazonaws.com", "/test.txt"};
  request.headers = {{"range", "bytes=0-9"}};
  request.payload_sha256 = kEmptySha;
  EXPECT_THAT(SignedHeaders(request, keys, "us-east-1", day).back(),
              HasSubstr("SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="
                        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
  request = {"GET", "examplebucket.s3.amazonaws.com", "/", {{"prefix", "J"}, {"max-keys", "2"}}};
  request.payload_sha256 = kEmptySha;
  EXPECT_THAT(SignedHeaders(request, keys, "us-east-1", day).back(),
              HasSubstr("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
TEST(S3SignerTest, SignedUrlIsThatOfAmazonsExample) {
  const S3Keys keys = {"AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  const S3Request request{"GET", "examplebucket.s3.amazonaws.com", "/test.txt"};
  EXPECT_EQ(SignedQuery(request, keys, "us-east-1", absl::FromUnixSeconds(1'369'353'600),
                        absl::Hours(24)),
            "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2F"
            "us-east-1%2Fs3%2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&"
            "X-Amz-SignedHeaders=host&X-Amz-Signature="
            "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404");
}

TEST(S3SignerTest, PathsAndQueriesAreEncodedAsTheyAreSigned) {
  EXPECT_EQ(EncodedPath("/a b/~c+"), "/a%20b/~c%2B");
  EXPECT_EQ(EncodedQuery({{"uploads", ""}, {"prefix", "a/b="}}), "prefix=a%2Fb%3D&uploads=");
}

TEST(S3XmlTest, TextsOfElementsAndOfWhatIsNone) {
  const std::string xml = "<R><K>a&amp;b</K><L><K>&lt;c&gt;</K></L><N/></R>";
  EXPECT_THAT(XmlElements(xml, "K"), ElementsAre("a&amp;b", "&lt;c&gt;"));
  EXPECT_EQ(XmlText(xml, "K"), "a&b");
  EXPECT_EQ(XmlText(xml, "N"), std::nullopt);
  for (const char* hostile : {"", "<K>", "<K", "</K><K>", "<K></J>", "&amp"}) {
    EXPECT_THAT(XmlElements(hostile, "K"), IsEmpty()) << hostile;
  }
  EXPECT_EQ(XmlText("<K>" + XmlEscaped("\"a<b>&'") + "</K>", "K"), "\"a<b>&'");
}

class S3ClientTest : public testing::Test {
 protected:
  S3Client Client(uint64_t part_bytes = 8) {
    S3Options options;
    options.endpoint = server_.endpoint();
    options.bucket = "nerf";
    options.prefix = "team/";
    options.keys = {"key", "secret"};
    options.part_bytes = part_bytes;
    options.stall_limit = absl::Seconds(2);
    options.sleep = [this](absl::Duration pause) { pauses_.push_back(pause); };
    return S3Client(options, &clock_, &random_);
  }
  absl::Status Put(S3Client& client, const std::string& content) {
    std::ofstream(dir_ / "file", std::ios::binary) << content;
    return client.PutFile("blobs/a", dir_ / "file", content.size(), Sha256Hex(content));
  }
  static auto Refused(std::string_view words) {
    return testing::AllOf(FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly),
                          StatusIs(StatusCode::kUnavailable, std::string(words)));
  }

  TempDir dir_;
  FakeClock clock_;
  FakeRandom random_;
  ScriptedHttpServer server_;
  std::vector<absl::Duration> pauses_;
};

TEST_F(S3ClientTest, SmallFileIsPutInOneSignedRequest) {
  server_.Answer({Http::Reply(200, "")});
  S3Client client = Client();
  ASSERT_THAT(Put(client, "content"), IsOk());
  ASSERT_THAT(server_.requests(), SizeIs(1));
  const Http::Request request = server_.requests()[0];
  EXPECT_EQ(request.method, "PUT");
  EXPECT_EQ(request.target, "/nerf/team/blobs/a");
  EXPECT_EQ(request.body, "content");
  EXPECT_EQ(request.headers.at("x-amz-content-sha256"), Sha256Hex("content"));
  EXPECT_THAT(request.headers.at("authorization"), HasSubstr("Credential=key/"));
  EXPECT_FALSE(request.headers.contains("expect"));
}

TEST_F(S3ClientTest, LargeFileIsPutInParts) {
  server_.Answer({Http::Reply(200, "<R><UploadId>u1</UploadId></R>"),
                  Http::Reply(200, "", "ETag: \"one\"\r\n"),
                  Http::Reply(200, "", "ETag: \"two\"\r\n"), Http::Reply(200, "<R/>")});
  S3Client client = Client();
  ASSERT_THAT(Put(client, "0123456789"), IsOk());
  const std::vector<Http::Request> requests = server_.requests();
  ASSERT_THAT(requests, SizeIs(4));
  EXPECT_EQ(requests[0].method + requests[0].target, "POST/nerf/team/blobs/a?uploads=");
  EXPECT_EQ(requests[1].target, "/nerf/team/blobs/a?partNumber=1&uploadId=u1");
  EXPECT_EQ(requests[1].body + "|" + requests[2].body, "01234567|89");
  EXPECT_EQ(requests[3].method + requests[3].target, "POST/nerf/team/blobs/a?uploadId=u1");
  EXPECT_THAT(requests[3].body, HasSubstr("<PartNumber>2</PartNumber><ETag>&quot;two&quot;"));
}

TEST_F(S3ClientTest, PartsOfAFailedUploadAreDiscarded) {
  const std::string begun = Http::Reply(200, "<R><UploadId>u1</UploadId></R>");
  const std::string part = Http::Reply(200, "", "ETag: \"one\"\r\n");
  const std::vector<std::vector<std::string>> stories = {
      {begun, Http::Error(403, "AccessDenied", "no"), Http::Reply(204, "")},
      {begun, Http::Reply(200, ""), Http::Reply(204, "")},  // no ETag
      // The end answers 200 before it knows.
      {begun, part, part, Http::Error(200, "InvalidPart", "gone"), Http::Reply(204, "")}};
  for (const auto& story : stories) {
    server_.Answer(story);
    S3Client client = Client();
    EXPECT_THAT(Put(client, "0123456789"), StatusIs(StatusCode::kUnavailable));
    const std::vector<Http::Request> requests = server_.requests();
    ASSERT_THAT(requests, SizeIs(story.size()));
    EXPECT_EQ(requests.back().method + requests.back().target,
              "DELETE/nerf/team/blobs/a?uploadId=u1");
  }
}

TEST_F(S3ClientTest, PassingFailuresAreTriedAgainWithGrowingDrawnPauses) {
  server_.Answer({Http::Error(503, "SlowDown", "wait"), Http::Error(500, "InternalError", "oh"), "",
                  Http::Reply(429, ""), Http::Reply(206, "cut off", "", 100),
                  Http::Reply(206, "0123456789")});
  S3Client client = Client();
  EXPECT_THAT(client.Get("blobs/a", 0, 10), IsOkAndHolds("0123456789"));
  EXPECT_THAT(server_.requests(), SizeIs(6));
  ASSERT_THAT(pauses_, SizeIs(5));
  absl::Duration bound = absl::Milliseconds(200);
  for (const absl::Duration pause : pauses_) {
    EXPECT_GE(pause, absl::ZeroDuration());
    EXPECT_LT(pause, bound);
    bound *= 2;
  }
  EXPECT_NE(pauses_[0] * 2, pauses_[1]) << "drawn";
}

TEST_F(S3ClientTest, FailureThatDoesNotPassIsAnErrorWithTheServersWords) {
  S3Client client = Client();
  server_.Answer({Http::Error(503, "SlowDown", "wait a little")});
  EXPECT_THAT(client.Get("blobs/a", 0, 1).status(),
              Refused("cannot read blobs/a: 503 SlowDown: wait a little"));
  EXPECT_THAT(server_.requests(), SizeIs(6));
  server_.Answer({""});
  EXPECT_THAT(client.List("").status(), Refused("cannot list its objects"));
}

TEST_F(S3ClientTest, RefusalsAreNotTriedAgain) {
  const std::vector<std::pair<std::string, std::string>> refusals = {
      {Http::Error(403, "SignatureDoesNotMatch", "check your key"),
       "403 SignatureDoesNotMatch: check your key"},
      {Http::Error(404, "NoSuchBucket", "none"), "404 NoSuchBucket: none"},
      {Http::Error(400, "XAmzContentSHA256Mismatch", "other"), "400 XAmzContentSHA256Mismatch"},
      {Http::Reply(301, "moved"), "301"}};
  S3Client client = Client();
  for (const auto& [answer, words] : refusals) {
    server_.Answer({answer});
    EXPECT_THAT(Put(client, "content"), Refused(words));
    EXPECT_THAT(server_.requests(), SizeIs(1));
  }
}

TEST_F(S3ClientTest, MissingObjectsAreNotFound) {
  S3Client client = Client();
  server_.Answer({Http::Error(404, "NoSuchKey", "none")});
  EXPECT_THAT(client.Get("blobs/a", 0, 1).status(), StatusIs(StatusCode::kNotFound));
  EXPECT_THAT(client.Delete("blobs/a"), IsOk());
  EXPECT_THAT(client.Copy("blobs/a", "damaged/a"), StatusIs(StatusCode::kNotFound));
  server_.Answer({Http::Reply(404, "")});
  EXPECT_THAT(client.Head("blobs/a"), IsOkAndHolds(std::nullopt));
  EXPECT_THAT(server_.requests(), SizeIs(1));
}

TEST_F(S3ClientTest, RangeBeyondTheEndIsEmptyAndMoreThanItIsRefused) {
  S3Client client = Client();
  server_.Answer({Http::Error(416, "InvalidRange", "beyond")});
  EXPECT_THAT(client.Get("blobs/a", 10, 5), IsOkAndHolds(std::string()));
  EXPECT_EQ(server_.requests()[0].headers.at("range"), "bytes=10-14");
  server_.Answer({Http::Reply(200, "the whole object")});
  EXPECT_THAT(client.Get("blobs/a", 0, 5).status(), Refused("more than the range"));
}

TEST_F(S3ClientTest, ListGoesThroughAllPages) {
  server_.Answer({Http::Reply(200,
                              "<R><IsTruncated>true</IsTruncated>"
                              "<NextContinuationToken>n/2</NextContinuationToken>"
                              "<Contents><Key>team/blobs/a</Key><Size>3</Size></Contents></R>"),
                  Http::Reply(200,
                              "<R><IsTruncated>false</IsTruncated>"
                              "<Contents><Key>team/blobs/b</Key><Size>4</Size></Contents></R>")});
  S3Client client = Client();
  const auto objects = client.List("blobs/");
  ASSERT_THAT(objects, IsOk());
  ASSERT_THAT(*objects, SizeIs(2));
  EXPECT_EQ((*objects)[1].key, "blobs/b");
  EXPECT_EQ((*objects)[1].byte_size, 4u);
  EXPECT_THAT(server_.requests()[1].target, HasSubstr("continuation-token=n%2F2"));
  for (const char* hostile : {"<Contents></Contents>", "<Contents><Key>team/a</Key></Contents>",
                              "<Contents><Key>other/a</Key><Size>3</Size></Contents>",
                              "<Contents><Key>team/a</Key><Size>-3</Size></Contents>"}) {
    server_.Answer({Http::Reply(200, hostile)});
    EXPECT_THAT(client.List("").status(), Refused("an entry has no key or size")) << hostile;
  }
}

TEST_F(S3ClientTest, UploadsThatNobodyEndsAreDiscarded) {
  server_.Answer({Http::Reply(200,
                              "<R><Upload><Key>team/blobs/a</Key><UploadId>u7</UploadId>"
                              "</Upload></R>"),
                  Http::Reply(204, "")});
  S3Client client = Client();
  EXPECT_THAT(client.AbortLostUploads(), IsOkAndHolds(1u));
  EXPECT_EQ(server_.requests()[1].method + server_.requests()[1].target,
            "DELETE/nerf/team/blobs/a?uploadId=u7");
}

}  // namespace
}  // namespace nerf
