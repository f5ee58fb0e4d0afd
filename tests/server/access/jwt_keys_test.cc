// JWTs that are signed here with keys of libjose, and everything that is wrong with others.
#include "server/access/jwt_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jansson.h>

extern "C" {  // they do not say so themselves
#include <jose/b64.h>
#include <jose/jwk.h>
#include <jose/jws.h>
}

#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using absl::StatusCode;

std::string Dump(const json_t* json) {
  char* text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
  std::string result(text);
  free(text);
  return result;
}

std::string Base64(const std::string& bytes) {
  json_t* json = jose_b64_enc(bytes.data(), bytes.size());
  std::string text = json_string_value(json);
  json_decref(json);
  return text;
}

// A key pair of libjose.
class Key {
 public:
  Key(const std::string& algorithm, const std::string& id)
      : algorithm_(algorithm),
        json_(json_pack("{s:s,s:s}", "alg", algorithm.c_str(), "kid", id.c_str())) {
    EXPECT_TRUE(jose_jwk_gen(nullptr, json_));
  }
  ~Key() { json_decref(json_); }

  std::string Public() const {
    json_t* copy = json_deep_copy(json_);
    EXPECT_TRUE(jose_jwk_pub(nullptr, copy));
    std::string text = Dump(copy);
    json_decref(copy);
    return text;
  }

  // HEADER.CLAIMS.SIGNATURE. `header` has what stands beside alg and kid.
  std::string Sign(const std::string& claims, const std::string& header = "") const {
    json_t* jws = json_pack("{s:o}", "payload", jose_b64_enc(claims.data(), claims.size()));
    json_t* parsed =
        json_loads(absl::StrCat("{\"alg\":\"", algorithm_, "\",\"kid\":\"",
                                json_string_value(json_object_get(json_, "kid")), "\"", header, "}")
                       .c_str(),
                   0, nullptr);
    json_t* sig = json_pack("{s:o}", "protected", parsed);
    EXPECT_TRUE(jose_jws_sig(nullptr, jws, sig, json_));
    const std::string token =
        absl::StrCat(json_string_value(json_object_get(jws, "protected")), ".",
                     json_string_value(json_object_get(jws, "payload")), ".",
                     json_string_value(json_object_get(jws, "signature")));
    json_decref(sig);
    json_decref(jws);
    return token;
  }

 private:
  const std::string algorithm_;
  json_t* const json_;
};

class JwtKeysTest : public testing::Test {
 protected:
  JwtKeysTest() { WriteSet({rsa_.Public(), ec_.Public()}); }

  void WriteSet(const std::vector<std::string>& keys) {
    std::string text = "{\"keys\":[";
    for (size_t i = 0; i < keys.size(); ++i) absl::StrAppend(&text, i > 0 ? "," : "", keys[i]);
    std::ofstream(dir_ / "jwks.json") << text << "]}";
  }
  std::unique_ptr<JwtKeys> Open(const std::string& issuer = "https://id.example.com") {
    auto keys = JwtKeys::Open({dir_ / "jwks.json", issuer, "nerfd"}, &clock_);
    EXPECT_THAT(keys.status(), IsOk());
    return keys.ok() ? *std::move(keys) : nullptr;
  }
  std::string Claims(int seconds, const std::string& more = "") {
    return absl::StrCat(
        R"({"iss":"https://id.example.com","aud":["web","nerfd"],"sub":"ana","exp":)",
        absl::ToUnixSeconds(clock_.WallNow()) + seconds,
        R"(,"nerfd":{"lab":"editor","*":"viewer"})", more, "}");
  }

  TempDir dir_;
  FakeClock clock_;
  const Key rsa_{"RS256", "rsa-1"}, ec_{"ES256", "ec-1"}, hmac_{"HS256", "rsa-1"},
      stranger_{"RS256", "rsa-1"};
};

TEST_F(JwtKeysTest, SignedTokenIsWhomAndWhatItSays) {
  const auto keys = Open();
  for (const Key* key : {&rsa_, &ec_}) {
    const auto principal = keys->Identify(key->Sign(Claims(600)));
    ASSERT_THAT(principal.status(), IsOk());
    ASSERT_TRUE(principal->has_value());
    EXPECT_EQ((*principal)->name, "jwt/ana");
    ASSERT_EQ((*principal)->grants.size(), 2U);
    EXPECT_EQ((*principal)->grants[0].role, Role::kEditor);
    EXPECT_EQ((*principal)->grants[0].project, "lab");
    EXPECT_EQ((*principal)->grants[1].role, Role::kViewer);
    EXPECT_EQ((*principal)->grants[1].project, "");
  }
}

TEST_F(JwtKeysTest, OtherTokensAreNoneOfThisKind) {
  const auto keys = Open();
  for (const char* token : {"", "abc", "a.b", "a.b.c.d", "0123456789abcdef"}) {
    const auto principal = keys->Identify(token);
    ASSERT_THAT(principal.status(), IsOk()) << token;
    EXPECT_FALSE(principal->has_value()) << token;
  }
}

TEST_F(JwtKeysTest, ForgedAndDamagedTokensAreRefused) {
  const auto keys = Open();
  const std::string good = rsa_.Sign(Claims(600));
  const std::string claims = good.substr(good.find('.') + 1, good.rfind('.') - good.find('.') - 1);
  const std::string bad_tokens[] = {
      stranger_.Sign(Claims(600)),
      hmac_.Sign(Claims(600)),  // HS256 under the id of an RSA key
      Base64(R"({"alg":"none"})") + "." + claims + ".",
      Base64(R"({"alg":"none"})") + "." + claims + "." + good.substr(good.rfind('.') + 1),
      Base64(R"({"alg":"RS256","alg":"none"})") + "." + claims + ".x",
      good.substr(0, good.size() - 4),
      good.substr(0, good.find('.')) + "." + Base64(Claims(6000)) + good.substr(good.rfind('.')),
      "..",
      "a.b.c",
      Base64("{}") + "." + Base64("{}") + ".",
      Base64("[]") + "." + claims + ".x",
      "." + claims + ".",
      std::string(9000, 'A') + "." + claims + ".x",
      std::string(100'000, '.'),
      rsa_.Sign(Claims(600), R"(,"crit":["exp"])"),
      rsa_.Sign("[]"),
      rsa_.Sign("\"text\""),
  };
  for (const std::string& token : bad_tokens) {
    const auto principal = keys->Identify(token);
    EXPECT_TRUE(!principal.ok() || !principal->has_value()) << token.substr(0, 60);
    if (!principal.ok()) {
      EXPECT_THAT(principal.status(),
                  FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
    }
  }
}

TEST_F(JwtKeysTest, TimesCountWithAMinuteOfSkew) {
  const auto keys = Open();
  EXPECT_THAT(keys->Identify(rsa_.Sign(Claims(-30))).status(), IsOk());
  EXPECT_THAT(keys->Identify(rsa_.Sign(Claims(-120))).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenExpired));
  const int64_t now = absl::ToUnixSeconds(clock_.WallNow());
  const auto begins = [&](int64_t at) { return absl::StrCat(R"(,"nbf":)", at); };
  EXPECT_THAT(keys->Identify(rsa_.Sign(Claims(600, begins(now + 30)))).status(), IsOk());
  EXPECT_THAT(keys->Identify(rsa_.Sign(Claims(600, begins(now + 120)))).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
}

TEST_F(JwtKeysTest, ClaimsThatAreMissingOrWrongAreRefused) {
  const auto keys = Open();
  const int64_t exp = absl::ToUnixSeconds(clock_.WallNow()) + 600;
  const auto sign = [&](const std::string& text) {
    return rsa_.Sign(absl::StrCat("{", text, "}"));
  };
  const std::string iss = R"("iss":"https://id.example.com")", aud = R"("aud":"nerfd")",
                    sub = R"("sub":"ana")", expires = absl::StrCat("\"exp\":", exp);
  EXPECT_THAT(keys->Identify(sign(absl::StrCat(iss, ",", aud, ",", sub, ",", expires))).status(),
              IsOk());
  for (const std::string& text : {
           absl::StrCat(aud, ",", sub, ",", expires),
           absl::StrCat(R"("iss":"https://evil.example",)", aud, ",", sub, ",", expires),
           absl::StrCat(iss, ",", sub, ",", expires),
           absl::StrCat(iss, R"(,"aud":"other",)", sub, ",", expires),
           absl::StrCat(iss, R"(,"aud":[1,["nerfd"]],)", sub, ",", expires),
           absl::StrCat(iss, ",", aud, ",", expires),
           absl::StrCat(iss, ",", aud, R"(,"sub":"",)", expires),
           absl::StrCat(iss, ",", aud, ",", sub),
           absl::StrCat(iss, ",", aud, ",", sub, R"(,"exp":"soon")"),
           absl::StrCat(iss, ",", aud, ",", sub, R"(,"exp":1e300)"),
           absl::StrCat(iss, ",", aud, ",", sub, ",", expires, R"(,"nerfd":{"lab":"root"})"),
           absl::StrCat(iss, ",", aud, ",", sub, ",", expires, R"(,"nerfd":{"lab":1})"),
           absl::StrCat(iss, ",", aud, ",", sub, ",", expires, R"(,"nerfd":{"../x":"admin"})"),
           absl::StrCat(iss, ",", aud, ",", sub, ",", expires, R"(,"nerfd":{"":"admin"})"),
           absl::StrCat(iss, ",", aud, ",", sub, ",", expires, R"(,"nerfd":{"lab":"worker"})"),
       }) {
    EXPECT_THAT(keys->Identify(sign(text)).status(),
                FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid))
        << text;
  }
}

TEST_F(JwtKeysTest, ReplacedKeysCountWhenTheFileIsReadAgain) {
  const auto keys = Open();
  const Key newer("ES256", "ec-2");
  WriteSet({newer.Public()});
  keys->Reload();
  EXPECT_THAT(keys->Identify(newer.Sign(Claims(600))).status(), IsOk());
  EXPECT_THAT(keys->Identify(rsa_.Sign(Claims(600))).status(),
              FailsWith(StatusCode::kUnauthenticated, reason::kTokenInvalid));
  std::ofstream(dir_ / "jwks.json") << "{";
  keys->Reload();
  EXPECT_THAT(keys->Identify(newer.Sign(Claims(600))).status(), IsOk()) << "the ones before stay";
}

TEST_F(JwtKeysTest, FilesWithoutAUsableKeyAreRefused) {
  for (const std::string& content :
       {std::string(), std::string("{}"), std::string("[]"), std::string("{\"keys\":[]}"),
        std::string("{\"keys\":[1,{},{\"kty\":\"oct\",\"k\":\"AAAA\"}]}"),
        std::string("{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-521\"}]}"), std::string(100, '[')}) {
    std::ofstream(dir_ / "bad.json") << content;
    EXPECT_THAT(JwtKeys::Open({dir_ / "bad.json", "", "nerfd"}, &clock_).status(),
                StatusIs(StatusCode::kInvalidArgument, "--jwks"));
  }
  EXPECT_THAT(JwtKeys::Open({dir_ / "none.json", "", "nerfd"}, &clock_).status(),
              StatusIs(StatusCode::kNotFound, "--jwks"));
}

}  // namespace
}  // namespace nerf
