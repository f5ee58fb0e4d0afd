#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

#include "server/store/s3/s3_client.h"
#include "tests/testing/paths.h"
#include "tests/testing/temp_dir.h"

namespace nerf {

// OpenStack Swift, an S3 server that checks signatures. Takes some seconds to start.
class Swift {
 public:
  Swift() {
    const std::string command = SourceDir() + "/tests/testing/swift_s3.sh " + dir_.path();
    int input[2], output[2];
    if (pipe(input) != 0 || pipe(output) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(input[0], 0);
      dup2(output[1], 1);
      for (const int fd : {input[0], input[1], output[0], output[1]}) close(fd);
      execl("/bin/bash", "bash", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    FILE* const words = fdopen(output[0], "r");
    std::array<char, 256> line{};
    while (fgets(line.data(), line.size(), words) != nullptr) {
      const std::string text = line.data();
      if (!text.starts_with("http://")) continue;
      endpoint_ = text.substr(0, text.size() - 1);
      break;
    }
    fclose(words);
  }
  ~Swift() {
    close(input_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  Swift(const Swift&) = delete;
  Swift& operator=(const Swift&) = delete;
  const std::string& endpoint() const { return endpoint_; }

 private:
  TempDir dir_;
  pid_t pid_ = -1;
  int input_ = -1;
  std::string endpoint_;
};

// Of a prefix of the running test's own, in a server that all tests of the program share. No
// endpoint: Swift is not installed.
inline S3Options OptionsOfSwift() {
  static Swift swift;
  S3Options options;
  options.endpoint = swift.endpoint();
  options.bucket = "nerf";
  options.prefix = std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + "/";
  options.keys = {"test:tester", "testing"};
  options.part_bytes = uint64_t{5} << 20;
  options.first_pause = absl::Milliseconds(1);
  return options;
}

}  // namespace nerf
