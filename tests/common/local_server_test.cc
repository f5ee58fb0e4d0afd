// Finding the data folder of one's own nerfd by its address.
#include "common/process/local_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "common/files/file_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

// The folder of a nerfd at 127.0.0.1:50051 with its lock, as seen from another process: a lock of
// this process on another descriptor looks the same.
class LocalServerTest : public testing::Test {
 protected:
  LocalServerTest() {
    setenv("XDG_STATE_HOME", dir_.path().c_str(), 1);
    mkdir(data_.c_str(), 0700);
    std::ofstream(data_ + "/nerfd.ports") << R"({"pid":1,"grpc":"127.0.0.1:50051"})";
    Lock();
  }
  ~LocalServerTest() override { unsetenv("XDG_STATE_HOME"); }

  void Lock() {
    lock_ = UniqueFd(open((data_ + "/nerfd.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(flock(lock_.get(), LOCK_EX | LOCK_NB), 0);
  }

  TempDir dir_;
  const std::string data_ = dir_ / "data";
  UniqueFd lock_;
};

TEST_F(LocalServerTest, PageIsFoundWhereOneIsServed) {
  ASSERT_THAT(NoteLocalServer("127.0.0.1:50051", data_), IsOk());
  EXPECT_EQ(FindLocalPage("127.0.0.1:50051"), "");
  std::ofstream(data_ + "/nerfd.ports")
      << R"({"pid":1,"grpc":"127.0.0.1:50051","page":"https://127.0.0.1:8080/"})";
  EXPECT_EQ(FindLocalPage("127.0.0.1:50051"), "https://127.0.0.1:8080/");
  EXPECT_EQ(FindLocalPage("127.0.0.1:50052"), "");
  EXPECT_EQ(FindSharedPage("127.0.0.1:50051"), "https://127.0.0.1:8080/");
  std::ofstream(data_ + "/nerfd.ports")
      << R"({"pid":1,"grpc":"127.0.0.1:50051","page":"https://127.0.0.1:8080/",)"
         R"("shared_page":"https://nerf.example.com/"})";
  EXPECT_EQ(FindSharedPage("127.0.0.1:50051"), "https://nerf.example.com/");
  EXPECT_EQ(FindLocalPage("127.0.0.1:50051"), "https://127.0.0.1:8080/");
}

TEST_F(LocalServerTest, NoteLeadsToTheFolderBySeveralNamesUntilForgotten) {
  ASSERT_THAT(NoteLocalServer("127.0.0.1:50051", data_), IsOk());
  for (const char* address : {"127.0.0.1:50051", "localhost:50051", "[::1]:50051"}) {
    EXPECT_THAT(FindLocalServer(address), IsOkAndHolds(data_)) << address;
  }
  for (const char* address : {"127.0.0.1:50052", "10.0.0.1:50051", "", "127.0.0.1", "../data:1"}) {
    EXPECT_FALSE(FindLocalServer(address).ok()) << address;
  }
  ForgetLocalServer("127.0.0.1:50051");
  EXPECT_FALSE(FindLocalServer("127.0.0.1:50051").ok());
}

// Somebody else may have the port now; the token must not be sent there.
TEST_F(LocalServerTest, NoteOfAnEndedServerIsNotBelieved) {
  ASSERT_THAT(NoteLocalServer("127.0.0.1:50051", data_), IsOk());
  lock_.Reset();
  EXPECT_FALSE(FindLocalServer("127.0.0.1:50051").ok());
  Lock();
  EXPECT_TRUE(FindLocalServer("127.0.0.1:50051").ok());
  std::ofstream(data_ + "/nerfd.ports") << R"({"pid":1,"grpc":"127.0.0.1:50099"})";
  EXPECT_FALSE(FindLocalServer("127.0.0.1:50051").ok()) << "it came back at another port";
  for (const char* ports : {"", "{", R"({"grpc":")", R"({"grpc":7})"}) {
    std::ofstream(data_ + "/nerfd.ports") << ports;
    EXPECT_FALSE(FindLocalServer("127.0.0.1:50051").ok()) << ports;
  }
}

TEST_F(LocalServerTest, HostileNotesLeadNowhere) {
  const std::string note = dir_ / "nerfd/servers/127.0.0.1:50051";
  ASSERT_THAT(NoteLocalServer("127.0.0.1:50051", data_), IsOk());
  for (const std::string& content :
       {std::string(), std::string("relative\n"), std::string("/nowhere\n"),
        std::string(10'000, '/'), std::string("\0\0", 2)}) {
    std::ofstream(note) << content;
    EXPECT_FALSE(FindLocalServer("127.0.0.1:50051").ok());
  }
}

TEST(IsLoopbackAddressTest, NamesThatOnlyLookLikeLoopbackAreNot) {
  for (const char* address : {"127.0.0.1:1", "127.9.9.9:1", "localhost:1", "[::1]:1", "unix:/x"}) {
    EXPECT_TRUE(IsLoopbackAddress(address)) << address;
  }
  for (const char* address : {"127.evil.example:1", "localhost.evil.example:1", "0.0.0.0:1",
                              "[::]:1", "128.0.0.1:1", "", "nerf.example.com:50051"}) {
    EXPECT_FALSE(IsLoopbackAddress(address)) << address;
  }
}

}  // namespace
}  // namespace nerf
