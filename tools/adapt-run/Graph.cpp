// Graphs: arrays in, arrays out.
#include "Commands.h"
#include "adapt/Npy.h"
#include "adapt/adapt.h"

#include "absl/cleanup/cleanup.h"

#include <cerrno>
#include <cstring>
#include <sys/stat.h>

using namespace adapt;
using namespace adapt::rt;

namespace {

struct TypeName {
  schema::ElementType element;
  const char *descr;
};
// NumPy has no bfloat16: its bits go as int16.
constexpr TypeName kTypes[] = {{schema::F64, "<f8"},  {schema::F32, "<f4"}, {schema::F16, "<f2"},
                               {schema::BF16, "<i2"}, {schema::I64, "<i8"}, {schema::I32, "<i4"},
                               {schema::I16, "<i2"},  {schema::I8, "|i1"},  {schema::U8, "|u1"},
                               {schema::BOOL, "|b1"}};

const char *descrOf(schema::ElementType element) {
  for (const TypeName &type : kTypes)
    if (type.element == element)
      return type.descr;
  return nullptr;
}

/// The array as an input; int32 becomes int64 where the graph wants that.
absl::Status convert(NpyArray &array, schema::ElementType wanted, const std::string &what) {
  const char *descr = descrOf(wanted);
  if (!descr)
    return absl::UnimplementedError(
        absl::StrCat(what, ": arrays of ", schema::ElementType_Name(wanted), " have no .npy form"));
  if (array.descr == "<i4" && wanted == schema::I64) {
    std::vector<std::byte> wide(array.data.size() * 2);
    for (size_t i = 0; i < array.data.size() / 4; ++i) {
      int32_t narrow;
      std::memcpy(&narrow, array.data.data() + 4 * i, 4);
      int64_t value = narrow;
      std::memcpy(wide.data() + 8 * i, &value, 8);
    }
    array.data = std::move(wide);
  } else if (array.descr != descr) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": elements of type '", array.descr, "', wanted are '", descr, "'"));
  }
  if (wanted == schema::BOOL)
    for (std::byte &flag : array.data)
      flag = flag == std::byte(0) ? std::byte(0) : std::byte(1);
  return absl::OkStatus();
}

/// A name as a file's: what a path would read otherwise becomes '_'.
std::string fileName(const std::string &name) {
  std::string result = name;
  for (char &c : result)
    if (c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ')
      c = '_';
  return result.empty() || result[0] == '.' ? "_" + result : result;
}
} // namespace

absl::Status adapt::rt::runGraph(const RunOptions &options) {
  auto check = [](adapt_status *status) -> absl::Status {
    if (!status)
      return absl::OkStatus();
    absl::Status result(adapt_status_code(status) == ADAPT_FAULT
                            ? absl::StatusCode::kInternal
                            : absl::StatusCode::kInvalidArgument,
                        adapt_status_message(status));
    adapt_status_free(status);
    return result;
  };
  adapt_load_options load = {};
  load.size = sizeof(load);
  load.threads = options.threads;
  load.verify_hashes = options.verifyHashes;
  load.poison = options.poison;
  load.device = options.device.c_str();
  load.lane_order = options.laneOrder.c_str();
  adapt_model *model = nullptr;
  ADAPT_RETURN_IF_ERROR(check(adapt_model_load(options.bundle.c_str(), &load, &model)));
  absl::Cleanup freeModel = [&] { adapt_model_free(model); };

  std::vector<NpyArray> arrays;
  std::vector<std::string> names;
  std::vector<adapt_tensor> inputs;
  arrays.reserve(options.inputs.size());
  names.reserve(options.inputs.size());
  for (const std::string &option : options.inputs) {
    size_t equals = option.find('=');
    if (equals == std::string::npos)
      return absl::InvalidArgumentError(
          absl::StrCat("--input ", option, ": wanted is NAME=file.npy"));
    names.push_back(option.substr(0, equals));
    ADAPT_ASSIGN_OR_RETURN(NpyArray array, readNpy(option.substr(equals + 1)));
    adapt_tensor &input = inputs.emplace_back(adapt_tensor{});
    for (size_t i = 0; i < adapt_graph_num_inputs(model); ++i)
      if (names.back() == adapt_graph_input(model, i)->name) {
        input.element = adapt_graph_input(model, i)->element;
        ADAPT_RETURN_IF_ERROR(convert(array, static_cast<schema::ElementType>(input.element),
                                      absl::StrCat("--input ", option)));
      }
    arrays.push_back(std::move(array));
    input.name = names.back().c_str();
    input.rank = arrays.back().shape.size();
    input.shape = arrays.back().shape.data();
    input.data = arrays.back().data.data();
  }
  adapt_results *results = nullptr;
  ADAPT_RETURN_IF_ERROR(check(adapt_graph_run(model, inputs.data(), inputs.size(), &results)));
  absl::Cleanup freeResults = [&] { adapt_results_free(results); };

  if (mkdir(options.outputDirectory.c_str(), 0777) != 0 && errno != EEXIST)
    return absl::InvalidArgumentError(
        absl::StrCat("--output-dir ", options.outputDirectory, ": ", std::strerror(errno)));
  for (size_t i = 0; i < adapt_results_count(results); ++i) {
    const adapt_tensor &output = *adapt_results_get(results, i);
    const char *descr = descrOf(static_cast<schema::ElementType>(output.element));
    if (!descr)
      return absl::UnimplementedError(
          absl::StrCat("output '", output.name, "': its elements have no .npy form"));
    std::vector<int64_t> shape(output.shape, output.shape + output.rank);
    uint64_t count = 1;
    for (int64_t size : shape)
      count *= static_cast<uint64_t>(size);
    ADAPT_ASSIGN_OR_RETURN(
        NpyWriter writer,
        NpyWriter::create(absl::StrCat(options.outputDirectory, "/", fileName(output.name), ".npy"),
                          descr, shape));
    ADAPT_RETURN_IF_ERROR(writer.write(0, output.data, count));
    ADAPT_RETURN_IF_ERROR(writer.finish());
  }
  return absl::OkStatus();
}
