// Contexts, tokens and TLS of nerfctl: what it shows to which server, and what it says if that
// fails.
#include <gmock/gmock.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>

#include "client/flags/access.h"
#include "client/flags/context_file.h"
#include "common/access_reason.h"
#include "common/error_reason.h"
#include "common/process/exit_code.h"
#include "fmt/format.h"
#include "nerf/v1/admin_service.grpc.pb.h"
#include "tests/client/service_fixture.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/tls_folder.h"

namespace nerf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class AccessTest : public ServiceTest {
 protected:
  AccessTest() { std::ofstream(Token()) << "secret\n"; }

  std::string Token() const { return home_ / "token"; }
  void Grant(v1::Token::Role role, const std::string& project) {
    v1::Access::Grant& grant = *state_.access.add_grants();
    grant.set_role(role);
    grant.set_project(project);
  }
  CommandResult Login(std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"login", "--token-file", Token()});
    return Run(flags);
  }
  static Context ContextNamed(const std::string& name) {
    return ReadContexts(ContextPath())->by_name[name];
  }

 private:
  TempDir home_;
  const ScopedEnvironment variable_{"HOME", home_.path()};
  const ScopedEnvironment config_{"XDG_CONFIG_HOME", home_.path()};
};

TEST_F(AccessTest, LoginKeepsTheProjectOfATokenForOneAlone) {
  Grant(v1::Token::EDITOR, "projects/lab");
  CommandResult result = Login({"--name", "ana"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("as admin.token, editor of lab\n"));
  EXPECT_EQ(ContextNamed("ana").project, "lab");
  EXPECT_EQ(std::filesystem::status(ContextPath()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);

  result = Login({"--name", "wrong", "--project", "default"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_EQ(ContextNamed("wrong").project, "default") << "the flag wins";
  EXPECT_THAT(result.err, HasSubstr("for project default, which the token is not for"));

  Grant(v1::Token::VIEWER, "");
  result = Login({"--name", "both"});
  EXPECT_THAT(result.out, HasSubstr("editor of lab, viewer of every project\n"));
  EXPECT_EQ(ContextNamed("both").project, "default");
}

TEST_F(AccessTest, CommandsAboutContextsNameThem) {
  ASSERT_EQ(Login({"--name", "lab"}).exit_code, kOk);
  EXPECT_EQ(Run({"context", "use", "lab"}).out, "lab is the current context\n");
  EXPECT_EQ(Run({"context", "rm", "lab"}).out, "lab is forgotten\n");
}

TEST_F(AccessTest, OfTwoContextsForAServerTheCurrentOneCounts) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(Login({"--name", name, "--project", std::string("of-") + name}).exit_code, kOk);
  }
  const auto project = [&](const std::string& server, const std::string& context) {
    GlobalFlags flags;
    flags.server = server;
    flags.context = context;
    EXPECT_THAT(ApplyContext(/*server_is_given=*/true, &flags), IsOk());
    return flags.project;
  };
  EXPECT_EQ(project(server_.address(), ""), "of-c") << "the last login";
  ASSERT_EQ(Run({"context", "use", "b"}).exit_code, kOk);
  EXPECT_EQ(project(server_.address(), ""), "of-b");
  EXPECT_EQ(project(server_.address(), "a"), "of-a");
  EXPECT_EQ(project("127.0.0.1:1", ""), "default") << "it is for another server";
  ASSERT_EQ(Run({"context", "rm", "b"}).exit_code, kOk);
  EXPECT_EQ(project(server_.address(), ""), "of-a") << "none is current";
}

TEST_F(AccessTest, DeniedCallSaysWhatTheTokenIsFor) {
  const absl::Status denied =
      WithReason(absl::PermissionDeniedError("tokens/t-1 may not call X"), reason::kAccessDenied);
  state_.errors["ListJobs"] = {denied};
  Grant(v1::Token::VIEWER, "projects/lab");
  CommandResult result = Run({"job", "ls"});
  EXPECT_EQ(result.exit_code, kDenied);
  EXPECT_THAT(result.err, HasSubstr("\n  the token is viewer of lab; --project names another"));

  state_.errors["ListJobs"] = {
      WithReason(absl::PermissionDeniedError("tokens/t-1 may not call X: it needs the role editor"),
                 reason::kAccessDenied, {{"role", "editor"}})};
  result = Run({"job", "ls"});
  EXPECT_THAT(result.err,
              HasSubstr("it needs the role editor (ACCESS_DENIED)\n  the token is viewer of lab; "
                        "`nerfctl login` keeps another token"))
      << "no project helps a viewer";

  state_.errors["ListJobs"] = {denied};
  state_.errors["GetAccess"] = {absl::UnimplementedError("an older server")};
  result = Run({"job", "ls"});
  EXPECT_EQ(result.exit_code, kDenied);
  EXPECT_THAT(result.err, Not(HasSubstr("the token is")));
}

// They may read their own project, not the list of all.
TEST_F(AccessTest, ReadersOfAProjectSeeItsQuota) {
  state_.errors["ListProjects"] = {
      WithReason(absl::PermissionDeniedError("may not list"), reason::kAccessDenied)};
  const CommandResult result = Run({"admin", "project", "show", "lab"});
  EXPECT_EQ(result.exit_code, kOk) << result.err;
  EXPECT_THAT(result.out, HasSubstr("projects/lab\nqueued jobs:"));
}

// A server with TLS whose calls all end as unimplemented.
class TlsServer {
 public:
  explicit TlsServer(const TlsFiles& files) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", ServerTls(files).value(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~TlsServer() { server_->Shutdown(std::chrono::system_clock::now()); }
  int port() const { return port_; }

 private:
  int port_ = 0;
  v1::AdminService::Service service_;
  std::unique_ptr<grpc::Server> server_;
};

class TlsAdviceTest : public AccessTest {
 protected:
  // nerfctl's error against a server with these files.
  static std::string ErrorOf(const TlsFiles& files, std::vector<std::string> flags,
                             const std::string& host = "127.0.0.1") {
    const TlsServer server(files);
    flags.insert(flags.end(), {"job", "ls", "--server", fmt::format("{}:{}", host, server.port())});
    const CommandResult result = RunCommand(flags);
    EXPECT_EQ(result.exit_code, kUnreachable);
    EXPECT_THAT(result.err, Not(HasSubstr("start a server")));
    return result.err;
  }

  TlsFolder files_;
};

TEST_F(TlsAdviceTest, EachFailureOfTlsNamesItsRemedy) {
  EXPECT_THAT(ErrorOf(files_.Live(), {}),
              HasSubstr("if the server uses TLS, name its CA with --ca"));
  EXPECT_THAT(ErrorOf(files_.Live(), {"--ca", files_.Path("other-ca.pem")}),
              HasSubstr(": certificate verify failed (UNAVAILABLE)\n  another CA signed"));
  files_.Make("elsewhere", "nerf.example.com");
  EXPECT_THAT(ErrorOf({files_.Path("elsewhere/tls.pem"), files_.Path("elsewhere/tls.key"), ""},
                      {"--ca", files_.Path("ca.pem")}, "localhost"),
              HasSubstr("the server's certificate is for other names"));
  EXPECT_THAT(ErrorOf(files_.Live(/*asks_clients=*/true), {"--ca", files_.Path("ca.pem")}),
              HasSubstr("with --tls-cert and --tls-key"));
}

TEST_F(TlsAdviceTest, EachMistakeOfAFlagHasItsExitCode) {
  struct Mistake {
    std::vector<std::string> flags;
    int exit_code;
    std::string words;
  };
  const std::string none = files_.Path("none"), key = files_.Path("client.key");
  const Mistake mistakes[] = {
      {{"--ca", none}, kNotFound, "--ca: open " + none},
      {{"--ca", key}, kBadData, "--ca: " + key},
      {{"--ca", "system", "--tls-cert", key}, kUsage, "go together"},
      {{"--token-file", none}, kNotFound, "--token-file: open " + none},
      {{"--token-file", files_.Path("one")}, kBadData, "--token-file: read "},
      {{"--server", "192.0.2.1:1", "--token-file", Token()}, kUsage, "or say --insecure"},
  };
  for (const Mistake& mistake : mistakes) {
    std::vector<std::string> args = mistake.flags;
    args.insert(args.end(), {"job", "ls"});
    const CommandResult result = RunCommand(args);
    EXPECT_EQ(result.exit_code, mistake.exit_code) << result.err;
    EXPECT_THAT(result.err, HasSubstr(mistake.words));
  }
}

TEST_F(TlsAdviceTest, LogOfGrpcIsNotShownUnlessAskedFor) {
  const TlsServer server(files_.Live());
  const std::vector<std::string> command = {"job",      "ls",
                                            "--server", fmt::format("127.0.0.1:{}", server.port()),
                                            "--ca",     files_.Path("other-ca.pem")};
  RunningBinary silent(command, {}), asked(command, {{"GRPC_VERBOSITY", "ERROR"}});
  EXPECT_THAT(silent.Wait().err, Not(HasSubstr("ssl_transport_security")));
  EXPECT_THAT(asked.Wait().err, HasSubstr("ssl_transport_security"));
}

TEST_F(TlsAdviceTest, ServerWithoutTlsIsSaidToHaveNone) {
  const CommandResult result = Run({"--ca", files_.Path("ca.pem"), "job", "ls"});
  EXPECT_EQ(result.exit_code, kUnreachable);
  EXPECT_THAT(result.err, HasSubstr("the server does not use TLS, which --ca asks for"));
}

}  // namespace
}  // namespace nerf
