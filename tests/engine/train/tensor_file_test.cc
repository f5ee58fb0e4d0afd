#include "engine/field/files/tensor_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "common/files/sha256.h"
#include "nlohmann/json.hpp"
#include "tests/testing/paths.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"

namespace nerf {
namespace {

using Json = nlohmann::json;
using ::absl::StatusCode;

TensorFile SampleFile() {
  TensorFile file;
  const float weights[6] = {1, -2.5f, 3e-8f, 0, 65504, -0.0f};
  file.tensors["b.weights"] = TensorFromFloats(weights, {2, 3}, DType::kF32);
  file.tensors["a.half"] = TensorFromFloats(weights, {6}, DType::kF16);
  file.tensors["c.bits"] = {DType::kU8, {5}, {1, 2, 3, 4, 255}};
  file.tensors["d.counts"] = {DType::kI32, {1, 1}, {1, 0, 0, 128}};
  file.tensors["e.empty"] = {DType::kF32, {0, 7}, {}};
  file.metadata["step"] = "12";
  file.metadata["name"] = "mic \"quoted\" \n";
  return file;
}

bool Equal(const TensorFile& a, const TensorFile& b) {
  if (a.metadata != b.metadata || a.tensors.size() != b.tensors.size()) return false;
  for (const auto& [name, tensor] : a.tensors) {
    const auto found = b.tensors.find(name);
    if (found == b.tensors.end() || found->second.dtype != tensor.dtype ||
        found->second.shape != tensor.shape || found->second.bytes != tensor.bytes) {
      return false;
    }
  }
  return true;
}

std::string Prefix(uint64_t length) {
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &length, 8);
  return prefix;
}

std::string FileOf(const std::string& header, const std::string& payload) {
  return Prefix(header.size()) + header + payload;
}

// A valid file of one tensor "w" of two floats, whose header a test then corrupts.
Json OneTensorHeader(const std::string& payload = std::string(8, 'x')) {
  return {{"w", {{"dtype", "F32"}, {"shape", {2}}, {"data_offsets", {0, 8}}}},
          {"__metadata__", {{"sha256.w", Sha256Hex(payload)}}}};
}

TEST(TensorFileTest, RoundTripKeepsTensorsAndMetadata) {
  const std::string bytes = SerializeTensorFile(SampleFile());
  const auto parsed = ParseTensorFile(bytes, "memory");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_TRUE(Equal(*parsed, SampleFile()));
  EXPECT_EQ(SerializeTensorFile(*parsed), bytes);
}

TEST(TensorFileTest, NamesOfOlderVersionsAreReadAsTodays) {
  const float weights[2] = {1, 2};
  const Tensor tensor = TensorFromFloats(weights, {2}, DType::kF32);
  TensorFile old, current;
  for (const std::string prefix : {"", "adam.first.", "average."}) {
    old.tensors[prefix + "field.colour_mlp.2"] = tensor;
    current.tensors[prefix + "field.color_mlp.2"] = tensor;
  }
  old.metadata["scene.flavour"] = current.metadata["scene.flavor"] = "blender";
  old.metadata["colour"] = current.metadata["colour"] = "kept";
  const auto parsed = ParseTensorFile(SerializeTensorFile(old), "old");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_TRUE(Equal(*parsed, current));
  TempDir dir;
  ASSERT_THAT(WriteTensorFile(old, dir / "old"), IsOk());
  EXPECT_TRUE(Equal(*ReadTensorFile(dir / "old"), current));
  EXPECT_EQ(ReadTensorFileHeader(dir / "old")->tensors.count("field.color_mlp.2"), 1u);
}

TEST(TensorFileTest, LayoutIsThatOfPublicSafetensors) {
  const std::string bytes = SerializeTensorFile(SampleFile());
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const Json header = Json::parse(bytes.substr(8, length));
  // Names in order: a.half (12 bytes) lies first, b.weights (24 bytes) behind it.
  EXPECT_EQ(header["a.half"]["data_offsets"], Json({0, 12}));
  EXPECT_EQ(header["b.weights"]["data_offsets"], Json({12, 36}));
  EXPECT_EQ(header["b.weights"]["dtype"], "F32");
  EXPECT_EQ(header["b.weights"]["shape"], Json({2, 3}));
  float second = 0;
  std::memcpy(&second, bytes.data() + 8 + length + 12 + 4, 4);
  EXPECT_EQ(second, -2.5f);
  EXPECT_EQ(header["__metadata__"]["sha256.c.bits"], Sha256Hex("\x01\x02\x03\x04\xff"));
}

TEST(TensorFileTest, FileOfAnotherWriterInAnotherOrderIsRead) {
  const std::string payload = "abcdXY";
  Json header = {
      {"z", {{"dtype", "U8"}, {"shape", {2, 2}}, {"data_offsets", {0, 4}}}},
      {"a", {{"dtype", "BF16"}, {"shape", Json::array()}, {"data_offsets", {4, 6}}}},
      {"__metadata__", {{"sha256.z", Sha256Hex("abcd")}, {"sha256.a", Sha256Hex("XY")}}}};
  const auto parsed = ParseTensorFile(FileOf(header.dump(2) + "   ", payload), "memory");
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ(parsed->tensors.at("z").bytes, (std::vector<uint8_t>{'a', 'b', 'c', 'd'}));
  EXPECT_EQ(parsed->tensors.at("a").n_elements(), 1u);
}

TEST(TensorFileTest, WrittenFileReadsBackWholeAndAsHeader) {
  TempDir dir;
  const std::string path = dir / "f.safetensors";
  ASSERT_THAT(WriteTensorFile(SampleFile(), path), IsOk());
  const auto whole = ReadTensorFile(path);
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(Equal(*whole, SampleFile()));
  const auto header = ReadTensorFileHeader(path);
  ASSERT_THAT(header, IsOk());
  EXPECT_EQ(header->metadata, SampleFile().metadata);
  EXPECT_EQ(header->tensors.at("b.weights").shape, (std::vector<uint32_t>{2, 3}));
  EXPECT_TRUE(header->tensors.at("b.weights").bytes.empty());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1)
      << "a temporary file was left";
}

TEST(TensorFileTest, PlainPythonReadsWhatIsWritten) {
  TempDir dir;
  const std::string path = dir / "f.safetensors";
  ASSERT_THAT(WriteTensorFile(SampleFile(), path), IsOk());
  const std::string script = SourceDir() + "/tests/testing/read_safetensors.py";
  const std::string command = "python3 " + script + " " + path + " > " + (dir / "out");
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream in(dir / "out");
  const std::string out((std::istreambuf_iterator<char>(in)), {});
  EXPECT_NE(out.find("b.weights F32 [2, 3]\n"), std::string::npos) << out;
  EXPECT_NE(out.find("5 tensors"), std::string::npos) << out;
}

TEST(TensorFileTest, MissingFileIsNotFoundAndFolderAndPipeAreRefused) {
  TempDir dir;
  EXPECT_THAT(ReadTensorFile(dir / "none"), StatusIs(StatusCode::kNotFound, "none"));
  EXPECT_THAT(ReadTensorFile(dir.path()),
              StatusIs(StatusCode::kInvalidArgument, "is a folder; a file is needed"));
  ASSERT_EQ(mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(ReadTensorFile(dir / "pipe"),
              StatusIs(StatusCode::kInvalidArgument, "not a regular file"));
}

TEST(TensorFileTest, WriteIntoMissingFolderFailsAndNamesThePath) {
  TempDir dir;
  EXPECT_THAT(WriteTensorFile(SampleFile(), dir / "no/f"), StatusIs(StatusCode::kNotFound, "no/f"));
}

TEST(TensorFileTest, EveryTruncationIsRefused) {
  const std::string bytes = SerializeTensorFile(SampleFile());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto parsed = ParseTensorFile(bytes.substr(0, size), "cut");
    ASSERT_THAT(parsed, StatusIs(StatusCode::kInvalidArgument, "cut")) << "at " << size;
  }
}

TEST(TensorFileTest, TruncatedFilesOnDiskAreRefused) {
  TempDir dir;
  const std::string bytes = SerializeTensorFile(SampleFile());
  for (size_t size : {size_t{0}, size_t{3}, size_t{8}, size_t{50}, bytes.size() - 1}) {
    const std::string path = dir / "cut";
    std::ofstream(path, std::ios::binary) << bytes.substr(0, size);
    EXPECT_THAT(ReadTensorFile(path), StatusIs(StatusCode::kInvalidArgument, path)) << size;
    EXPECT_THAT(ReadTensorFileHeader(path), StatusIs(StatusCode::kInvalidArgument, path)) << size;
  }
}

TEST(TensorFileTest, EveryFlippedBitIsFoundOrHarmless) {
  const TensorFile sample = SampleFile();
  const std::string bytes = SerializeTensorFile(sample);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 7)));
    const auto parsed = ParseTensorFile(flipped, "flipped");
    if (!parsed.ok()) continue;
    // Harmless: other white space in the padding, or a header digest under another name.
    TensorFile known = *parsed;
    std::erase_if(known.metadata,
                  [&](const auto& entry) { return sample.metadata.count(entry.first) == 0; });
    EXPECT_TRUE(Equal(known, sample)) << "byte " << i;
  }
}

TEST(TensorFileTest, FlippedTensorByteIsDataLossNamingTheTensor) {
  std::string bytes = SerializeTensorFile(SampleFile());
  bytes[bytes.size() - 1] ^= 1;  // d.counts is the last that has bytes
  EXPECT_THAT(ParseTensorFile(bytes, "f"),
              FailsWith(StatusCode::kDataLoss, reason::kCheckpointCorrupt));
  EXPECT_THAT(ParseTensorFile(bytes, "f"), StatusIs(StatusCode::kDataLoss, "d.counts"));
}

TEST(TensorFileTest, ChangedMetadataIsDataLoss) {
  std::string bytes = SerializeTensorFile(SampleFile());
  const size_t at = bytes.find("\"12\"");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 1] = '9';
  EXPECT_THAT(ParseTensorFile(bytes, "f"), StatusIs(StatusCode::kDataLoss, "header"));
}

// Headers with one error each, and a word that the message must contain.
struct HostileHeader {
  const char* name;
  std::function<std::string()> file;
  const char* message;
};

std::string Spoiled(const std::function<void(Json&)>& spoil) {
  Json header = OneTensorHeader();
  spoil(header);
  return FileOf(header.dump(), std::string(8, 'x'));
}

const HostileHeader kHostile[] = {
    {"Empty", [] { return std::string(); }, "no tensor file"},
    {"SevenBytes", [] { return std::string(7, '\0'); }, "no tensor file"},
    {"ZeroLengthHeader", [] { return Prefix(0); }, "no JSON object"},
    {"HugeHeader", [] { return Prefix(uint64_t{1} << 40) + "{}"; }, "at most"},
    {"HeaderLengthOverflows", [] { return Prefix(~uint64_t{0}) + "{}"; }, "at most"},
    {"HeaderLongerThanFile", [] { return Prefix(1000) + "{}"; }, "cut off"},
    {"NoJson", [] { return FileOf("hello", ""); }, "no JSON object"},
    {"LeadingSpace", [] { return FileOf(" {}", ""); }, "no JSON object"},
    {"CutJson", [] { return FileOf(R"({"w": {"dtype")", ""); }, "no valid JSON"},
    {"TrailingText", [] { return FileOf("{} {}", ""); }, "no valid JSON"},
    {"TopLevelArray", [] { return FileOf("[1, 2]", ""); }, "no JSON object"},
    {"TensorIsNumber", [] { return FileOf(R"({"w": 3})", ""); }, "'w'"},
    {"TensorIsNull", [] { return FileOf(R"({"w": null})", ""); }, "'w'"},
    {"TensorIsString", [] { return FileOf(R"({"w": "F32"})", ""); }, "'w'"},
    {"TensorIsArray", [] { return FileOf(R"({"w": []})", ""); }, "'w'"},
    {"EmptyName", [] { return FileOf(R"({"": {}})", ""); }, "without a name"},
    {"LongName", [] { return FileOf("{\"" + std::string(300, 'n') + "\": {}}", ""); },
     "more than 256"},
    {"InvalidUtf8", [] { return FileOf("{\"\xff\xfe\": {}}", ""); }, "no valid JSON"},
    {"DuplicateTensor",
     [] {
       return FileOf(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                     R"("w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                     "");
     },
     "twice"},
    {"DuplicateMetadataObject",
     [] { return FileOf(R"({"__metadata__":{},"__metadata__":{}})", ""); }, "twice"},
    {"DuplicateMetadataKey", [] { return FileOf(R"({"__metadata__":{"a":"1","a":"2"}})", ""); },
     "twice"},
    {"DuplicateField", [] { return FileOf(R"({"w":{"dtype":"U8","dtype":"U8"}})", ""); }, "twice"},
    {"MetadataNotString", [] { return FileOf(R"({"__metadata__":{"a":1}})", ""); }, "metadata 'a'"},
    {"MetadataNested", [] { return FileOf(R"({"__metadata__":{"a":{}}})", ""); },
     "object where none"},
    {"MetadataIsArray", [] { return FileOf(R"({"__metadata__":[]})", ""); }, "array"},
    {"UnknownDtype", [] { return Spoiled([](Json& h) { h["w"]["dtype"] = "F64"; }); }, "F64"},
    {"LowerCaseDtype", [] { return Spoiled([](Json& h) { h["w"]["dtype"] = "f32"; }); }, "f32"},
    {"DtypeIsNumber", [] { return Spoiled([](Json& h) { h["w"]["dtype"] = 1; }); }, "dtype"},
    {"NoDtype", [] { return Spoiled([](Json& h) { h["w"].erase("dtype"); }); }, "lacks"},
    {"NoShape", [] { return Spoiled([](Json& h) { h["w"].erase("shape"); }); }, "lacks"},
    {"NoOffsets", [] { return Spoiled([](Json& h) { h["w"].erase("data_offsets"); }); }, "lacks"},
    {"UnknownField", [] { return Spoiled([](Json& h) { h["w"]["strides"] = {1}; }); }, "strides"},
    {"ShapeIsString", [] { return Spoiled([](Json& h) { h["w"]["shape"] = "2"; }); }, "shape"},
    {"ShapeNegative", [] { return Spoiled([](Json& h) { h["w"]["shape"] = {-2}; }); }, "negative"},
    {"ShapeFraction", [] { return Spoiled([](Json& h) { h["w"]["shape"] = {2.5}; }); }, "fraction"},
    {"ShapeNested", [] { return Spoiled([](Json& h) {
                           h["w"]["shape"] = {{2}, {1}};
                         }); }, "shape"},
    {"ShapeTooLarge", [] { return Spoiled([](Json& h) { h["w"]["shape"] = {4294967296}; }); },
     "2^32"},
    {"ShapeProductOverflows",
     [] {
       return Spoiled([](Json& h) {
         h["w"]["shape"] = {4294967295u, 4294967295u, 4294967295u, 2};
       });
     },
     "does not take"},
    // 2^62 * 4 bytes wraps to 0 in 64 bits.
    {"ShapeProductWrapsToZero",
     [] {
       return Spoiled([](Json& h) {
         h["w"]["shape"] = {2147483648u, 2147483648u};
         h["w"]["data_offsets"] = {0, 0};
       });
     },
     "does not take"},
    {"TooManyDimensions",
     [] { return Spoiled([](Json& h) { h["w"]["shape"] = {1, 1, 1, 1, 1, 1, 1, 1, 2}; }); },
     "8 dimensions"},
    {"ShapeDisagreesWithOffsets", [] { return Spoiled([](Json& h) { h["w"]["shape"] = {3}; }); },
     "does not take"},
    {"OffsetNegative", [] { return Spoiled([](Json& h) {
                              h["w"]["data_offsets"] = {-8, 0};
                            }); },
     "negative"},
    {"OffsetsAreNoArray", [] { return Spoiled([](Json& h) { h["w"]["data_offsets"] = 8; }); },
     "data_offsets"},
    {"SizeAgreesWithAnotherDtype", [] { return Spoiled([](Json& h) { h["w"]["dtype"] = "F16"; }); },
     "does not take"},
    {"OneOffset", [] { return Spoiled([](Json& h) { h["w"]["data_offsets"] = {0}; }); },
     "two data_offsets"},
    {"ThreeOffsets", [] { return Spoiled([](Json& h) {
                            h["w"]["data_offsets"] = {0, 8, 8};
                          }); },
     "two data_offsets"},
    {"OffsetsReversed", [] { return Spoiled([](Json& h) {
                               h["w"]["data_offsets"] = {8, 0};
                             }); },
     "lies at"},
    {"OffsetsBehindEnd", [] { return Spoiled([](Json& h) {
                                h["w"]["data_offsets"] = {4, 12};
                              }); },
     "lies at"},
    {"OffsetsNear64Bits",
     [] {
       return Spoiled([](Json& h) {
         h["w"]["data_offsets"] = {18446744073709551608u, 18446744073709551615u};
       });
     },
     "lies at"},
    {"OffsetBeyond64Bits",
     [] {
       return FileOf(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,99999999999999999999]}})",
                     "x");
     },
     "fraction"},
    {"Gap",
     [] {
       Json header = OneTensorHeader();
       header["w"]["data_offsets"] = {4, 12};
       return FileOf(header.dump(), std::string(12, 'x'));
     },
     "gap"},
    {"Overlap",
     [] {
       Json header = OneTensorHeader();
       header["v"] = header["w"];
       header["__metadata__"]["sha256.v"] = header["__metadata__"]["sha256.w"];
       return FileOf(header.dump(), std::string(8, 'x'));
     },
     "inside"},
    {"PartialOverlap",
     [] {
       Json header = OneTensorHeader();
       header["v"] = header["w"];
       header["v"]["data_offsets"] = {4, 12};
       header["__metadata__"]["sha256.v"] = header["__metadata__"]["sha256.w"];
       return FileOf(header.dump(), std::string(12, 'x'));
     },
     "inside"},
    {"EmptyTensorBehindEnd",
     [] {
       return Spoiled([](Json& h) {
         h["e"] = {{"dtype", "U8"}, {"shape", {0}}, {"data_offsets", {9, 9}}};
       });
     },
     "lies at"},
    {"BytesBehindLastTensor", [] { return FileOf(OneTensorHeader().dump(), std::string(9, 'x')); },
     "behind the last"},
    {"NoDigest", [] { return Spoiled([](Json& h) { h.erase("__metadata__"); }); }, "sha256"},
    {"DigestNotHex", [] { return Spoiled([](Json& h) { h["__metadata__"]["sha256.w"] = "abc"; }); },
     "sha256"},
    {"MetadataInvalidUtf8", [] { return FileOf("{\"__metadata__\":{\"a\":\"\xc3\x28\"}}", ""); },
     "no valid JSON"},
    {"OverlongUtf8", [] { return FileOf("{\"__metadata__\":{\"a\":\"\xc0\xaf\"}}", ""); },
     "no valid JSON"},
    {"LoneSurrogate", [] { return FileOf(R"({"__metadata__":{"a":"\ud800"}})", ""); },
     "no valid JSON"},
    {"DigestOfAnotherLength",
     [] { return Spoiled([](Json& h) { h["__metadata__"]["sha256.w"] = std::string(63, 'a'); }); },
     "sha256"},
    {"DeepNesting", [] { return FileOf("{\"w\":" + std::string(1 << 20, '[') + "}", ""); }, "'w'"},
    {"DeepObjects",
     [] {
       std::string text;
       for (int i = 0; i < 100000; ++i) text += "{\"a\":";
       return FileOf(text, "");
     },
     ""},
};

class HostileTensorFileTest : public ::testing::TestWithParam<HostileHeader> {};

TEST_P(HostileTensorFileTest, IsRefusedWithItsReason) {
  EXPECT_THAT(ParseTensorFile(GetParam().file(), "hostile"),
              StatusIs(StatusCode::kInvalidArgument, std::string(GetParam().message)));
  EXPECT_THAT(ParseTensorFile(GetParam().file(), "hostile"),
              StatusIs(StatusCode::kInvalidArgument, "hostile"));
}

INSTANTIATE_TEST_SUITE_P(TensorFile, HostileTensorFileTest, ::testing::ValuesIn(kHostile),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(TensorFileTest, SpoiledSampleIsValidUnspoiled) {
  EXPECT_THAT(ParseTensorFile(Spoiled([](Json&) {}), "memory"), IsOk());
}

TEST(TensorFileTest, MoreTensorsThanALimitAreRefused) {
  Json header = Json::object();
  for (int i = 0; i < 5000; ++i) {
    header["t" + std::to_string(i)] = {{"dtype", "U8"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  }
  EXPECT_THAT(ParseTensorFile(FileOf(header.dump(), ""), "many"),
              StatusIs(StatusCode::kInvalidArgument, "4096"));
}

TEST(RoundToHalfTest, IsWhatAModelFileHolds) {
  const std::vector<float> values = {0.1f, -3.14159f, 1e-7f, 65519.0f, 1e30f};
  const std::vector<float> held = ToFloats(TensorFromFloats(values.data(), {5}, DType::kF16));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(RoundToHalf(values[i]), held[i]);
}

TEST(ToFloatsTest, BrainFloatIsTheUpperHalfOfAFloat) {
  const Tensor tensor{DType::kBF16, {2}, {0x80, 0x3f, 0x49, 0xc0}};
  EXPECT_EQ(ToFloats(tensor), (std::vector<float>{1.0f, -3.140625f}));
}

}  // namespace
}  // namespace nerf
