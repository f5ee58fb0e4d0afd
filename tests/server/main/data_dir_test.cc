#include "server/main/data_dir.h"

#include <gtest/gtest.h>

#include <string>

#include "common/file_io.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

TEST(DataDirTest, AddressesAreJsonWhateverTheSocketIsCalled) {
  const TempDir dir;
  auto data = DataDir::Open(dir / "data");
  ASSERT_THAT(data, IsOk());
  ASSERT_THAT(
      data->WriteAddresses({"unix:/run/anna's \"nerf\"\n", "127.0.0.1:9464", "127.0.0.1:8080"}),
      IsOk());
  const auto written = ReadFile(data->File("nerfd.ports"), 1000);
  ASSERT_THAT(written, IsOk());
  EXPECT_THAT(*written,
              testing::HasSubstr(R"("grpc":"unix:/run/anna's \"nerf\"\u000a","metrics":"127)"));
}

}  // namespace
}  // namespace nerf
