#include "engine/field/files/torch_file.h"

#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace nerf {
namespace {

using ::absl::StatusCode;

std::string PickleBytes(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

// Instructions of pickles.
std::string Text(const std::string& text) {
  return "X" + PickleBytes({static_cast<int>(text.size()), 0, 0, 0}) + text;
}
std::string Number(int number) { return "K" + PickleBytes({number}); }
std::string Function(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string Pickle(const std::string& body) { return PickleBytes({0x80, 2}) + body + "."; }

std::string Storage(const std::string& key, int n) {
  return "(" + Text("storage") + Function("torch", "FloatStorage") + Text(key) + Text("cpu") +
         Number(n) + "NtQ";
}
// A tensor [rows, columns] at `offset` of a storage, with these strides.
std::string TensorOf(const std::string& storage, int offset, int rows, int columns, int row_stride,
                     int column_stride = 1) {
  return Function("torch._utils", "_rebuild_tensor_v2") + "(" + storage + Number(offset) +
         Number(rows) + Number(columns) + "\x86" + Number(row_stride) + Number(column_stride) +
         "\x86\x89" + Function("collections", "OrderedDict") + ")RtR";
}
std::string Dictionary(const std::string& items) { return "}(" + items + "u"; }

const std::string kHeader = PickleBytes({0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20,
                                         0x6a, 0xa8, 0x50, 0x19, '.'}) +
                            Pickle("M" + PickleBytes({0xe9, 0x03})) + Pickle("}");

// A file with this object and one storage "7" of these floats.
std::string TorchFileBytes(const std::string& object,
                           const std::vector<float>& floats = {1, 2, 3, 4, 5, 6}) {
  std::string bytes = kHeader + Pickle(object) + Pickle("](" + Text("7") + "e");
  bytes += PickleBytes({static_cast<int>(floats.size()), 0, 0, 0, 0, 0, 0, 0});
  const size_t at = bytes.size();
  bytes.resize(at + floats.size() * sizeof(float));
  std::memcpy(bytes.data() + at, floats.data(), floats.size() * sizeof(float));
  return bytes;
}

std::string Little(size_t number, int n_bytes) {
  std::string bytes;
  for (int i = 0; i < n_bytes; ++i) bytes += static_cast<char>(number >> (8 * i) & 255);
  return bytes;
}

struct ZipFile {
  std::string name, bytes;
};

// A zip archive of files that are stored with this method; 0: not compressed. Files begin behind
// extra bytes, as those of torch.save.
std::string Zip(const std::vector<ZipFile>& files, int method = 0) {
  std::string archive, directory;
  for (const auto& [name, bytes] : files) {
    const std::string sizes = Little(bytes.size(), 4) + Little(bytes.size(), 4);
    const std::string start =
        Little(0, 4) + Little(method, 2) + std::string(8, '\0') + sizes + Little(name.size(), 2);
    directory += "PK\x01\x02" + Little(0, 2) + start + std::string(12, '\0') +
                 Little(archive.size(), 4) + name;
    archive += "PK\x03\x04" + start + Little(5, 2) + name + "extra" + bytes;
  }
  const std::string place = Little(archive.size(), 4);
  return archive + directory + "PK\x05\x06" + Little(0, 4) + Little(files.size(), 2) +
         Little(files.size(), 2) + Little(directory.size(), 4) + place + Little(0, 2);
}

std::string Floats(const std::vector<float>& floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}

const std::string kPickleOfA =
    Pickle(Dictionary(Text("a.weight") + TensorOf(Storage("0", 6), 2, 2, 2, 2)));

TEST(TorchFileTest, ArchivesAreReadToo) {
  const auto tensors = ParseTorchFile(Zip({{"net/data.pkl", kPickleOfA},
                                           {"net/byteorder", "little"},
                                           {"net/data/0", Floats({1, 2, 3, 4, 5, 6})},
                                           {"net/data/1", Floats({7})},
                                           {"net/version", "3\n"}}),
                                      "f");
  ASSERT_THAT(tensors, IsOk());
  ASSERT_EQ(tensors->size(), 1u);
  EXPECT_THAT(ToFloats(tensors->at("a.weight")), testing::ElementsAre(3, 4, 5, 6));
}

TEST(TorchFileTest, ADamagedArchiveIsRefusedWhereverItIsCutOrChanged) {
  const std::string archive =
      Zip({{"net/data.pkl", kPickleOfA}, {"net/data/0", Floats({1, 2, 3, 4, 5, 6})}});
  ASSERT_THAT(ParseTorchFile(archive, "f"), IsOk());
  for (size_t size = 0; size < archive.size(); ++size)
    EXPECT_FALSE(ParseTorchFile(archive.substr(0, size), "f").ok()) << size;
  // Nothing is read beyond the bytes (ASan), whatever a byte says.
  for (size_t place = 0; place < archive.size(); ++place) {
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string changed = archive;
      changed[place] = byte;
      const auto tensors = ParseTorchFile(changed, "f");
      EXPECT_TRUE(tensors.ok() || tensors.status().code() == StatusCode::kInvalidArgument) << place;
    }
  }
}

TEST(TorchFileTest, TensorsHaveTheNamesOfTheirKeys) {
  const std::string object =
      Dictionary(Text("iter") + Number(9) + Text("net") +
                 Dictionary(Text("a") + TensorOf(Storage("7", 6), 2, 2, 2, 2)) + Text("rates") +
                 "]" + "(G" + std::string(8, '\0') + "e");
  const auto tensors = ParseTorchFile(TorchFileBytes(object), "f");
  ASSERT_THAT(tensors, IsOk());
  ASSERT_EQ(tensors->size(), 1u);
  const Tensor& tensor = tensors->at("net.a");
  EXPECT_EQ(tensor.shape, (std::vector<uint32_t>{2, 2}));
  EXPECT_THAT(ToFloats(tensor), testing::ElementsAre(3, 4, 5, 6));
}

TEST(TorchFileTest, RememberedValuesAndAttributesAreUnderstood) {
  const std::string object =
      Dictionary(Text("a") + "q" + PickleBytes({1}) + TensorOf(Storage("7", 6), 0, 1, 6, 6) +
                 Text("b") + "h" + PickleBytes({1})) +
      Dictionary("") + "b";
  const auto tensors = ParseTorchFile(TorchFileBytes(object), "f");
  ASSERT_THAT(tensors, IsOk());
  EXPECT_EQ(tensors->count("a"), 1u);
}

struct HostileFile {
  const char* name;
  std::string bytes;
  const char* words;
};
void PrintTo(const HostileFile& file, std::ostream* out) { *out << file.name; }

class HostileTorchFileTest : public testing::TestWithParam<HostileFile> {};

TEST_P(HostileTorchFileTest, IsRefusedWithAReason) {
  EXPECT_THAT(ParseTorchFile(GetParam().bytes, "some.ckpt"),
              StatusIs(StatusCode::kInvalidArgument, GetParam().words));
  EXPECT_THAT(ParseTorchFile(GetParam().bytes, "some.ckpt"),
              StatusIs(StatusCode::kInvalidArgument, "some.ckpt: "));
}

std::string Repeated(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Files, HostileTorchFileTest,
    testing::Values(
        HostileFile{"Empty", "", "not a file of torch.save"},
        HostileFile{"Text", "weights", "not a file of torch.save"},
        HostileFile{"ZipWithoutDirectory", "PK\x03\x04", "its directory is missing"},
        HostileFile{"ZipOfOtherFiles", Zip({{"a.txt", "a"}}), "the archive has no data.pkl"},
        HostileFile{"ZipCompressed", Zip({{"net/data.pkl", kPickleOfA}}, 8),
                    "file 0 is compressed"},
        HostileFile{"ZipOfTwoFilesWithOneName", Zip({{"a/data.pkl", ""}, {"a/data.pkl", ""}}),
                    "file 1 has the name of another"},
        HostileFile{"ZipBigEndian", Zip({{"net/data.pkl", kPickleOfA}, {"net/byteorder", "big"}}),
                    "not little-endian"},
        HostileFile{"ZipWithoutTheStorage", Zip({{"net/data.pkl", kPickleOfA}}),
                    "tensor a.weight: its storage is missing"},
        HostileFile{"ZipWithASmallStorage",
                    Zip({{"net/data.pkl", kPickleOfA}, {"net/data/0", Floats({1, 2})}}),
                    "tensor a.weight: larger than its storage"},
        HostileFile{
            "ZipThatCallsTheSystem",
            Zip({{"net/data.pkl", Pickle(Function("os", "system") + Text("id") + "\x85R")}}),
            "it names os.system, which is not called here"},
        HostileFile{"HeaderAlone", kHeader, "the file ends early"},
        HostileFile{"CallsTheSystem",
                    TorchFileBytes(Function("os", "system") + Text("id") + "\x85R"),
                    "it names os.system, which is not called here"},
        HostileFile{"CallsEval", TorchFileBytes(Function("builtins", "eval") + Text("1") + "\x85R"),
                    "builtins.eval"},
        HostileFile{"BuildsAnObject",
                    TorchFileBytes(Function("collections", "OrderedDict") + ")\x81"),
                    "instruction 0x81"},
        HostileFile{"NamesByStack", TorchFileBytes(Text("os") + Text("system") + "\x93"),
                    "instruction 0x93"},
        HostileFile{"CallsANumber", TorchFileBytes(Number(1) + ")R"),
                    "a call of what is no function"},
        HostileFile{"FunctionWithoutEnd", TorchFileBytes("c" + std::string(500, 'a')),
                    "a line without end"},
        HostileFile{"EmptyStack", TorchFileBytes("a"), "the stack is empty"},
        HostileFile{"NoMark", TorchFileBytes("t"), "no mark"},
        HostileFile{"ItemsForANumber", TorchFileBytes(Number(1) + Number(2) + "a"),
                    "what holds none"},
        HostileFile{"KeyWithoutValue", TorchFileBytes("}(" + Text("a") + "u"),
                    "a key without a value"},
        HostileFile{"RecallsNothing", TorchFileBytes("h\x05"), "recalls what was not kept"},
        HostileFile{"RemembersFarAway", TorchFileBytes("}r" + PickleBytes({255, 255, 255, 255})),
                    "too much"},
        HostileFile{"HugeText", TorchFileBytes("X" + PickleBytes({255, 255, 255, 255})),
                    "the file ends early"},
        HostileFile{"TwoObjects", TorchFileBytes("}}"), "leaves no one object"},
        HostileFile{"TensorBehindItsStorage",
                    TorchFileBytes(Dictionary(Text("a") + TensorOf(Storage("7", 6), 3, 2, 2, 2))),
                    "tensor a: larger than its storage"},
        HostileFile{
            "TensorLargerThanItsStorage",
            TorchFileBytes(Dictionary(Text("a") + TensorOf(Storage("7", 6), 0, 255, 255, 255))),
            "tensor a: larger than its storage"},
        HostileFile{
            "TensorNotContiguous",
            TorchFileBytes(Dictionary(Text("a") + TensorOf(Storage("7", 6), 0, 2, 3, 1, 2))),
            "tensor a: it is not contiguous"},
        HostileFile{"StorageMissing",
                    TorchFileBytes(Dictionary(Text("a") + TensorOf(Storage("8", 6), 0, 1, 1, 1))),
                    "tensor a: its storage is missing"},
        HostileFile{"StorageLargerThanTheFile",
                    kHeader + Pickle("}") + Pickle("](" + Text("7") + "e") +
                        PickleBytes({255, 255, 255, 255, 255, 255, 255, 63}),
                    "a storage that is larger than the file"},
        HostileFile{
            "HoldsItself",
            TorchFileBytes("}q" + PickleBytes({1}) + Text("a") + "h" + PickleBytes({1}) + "s"),
            "nested too deeply"},
        HostileFile{"TooManyMarks", TorchFileBytes(Repeated("(", 1 << 21)), "too many marks"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nerf
