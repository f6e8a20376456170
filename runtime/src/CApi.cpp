#include "adapt/Bundle.h"
#include "adapt/GraphModel.h"
#include "adapt/LanguageModel.h"
#include "adapt/OpenDevice.h"
#include "adapt/adapt.h"

#include <cstring>
#include <exception>

using namespace adapt::rt;

struct adapt_status {
  adapt_code code;
  std::string message;
};

namespace {
/// A port and what its C form points to.
struct CPort {
  std::vector<const char *> shape;
  adapt_port port;
};

std::vector<CPort> describe(absl::Span<const GraphModel::Port> ports) {
  std::vector<CPort> result;
  for (const GraphModel::Port &port : ports) {
    CPort &out = result.emplace_back();
    for (const std::string &size : port.shape)
      out.shape.push_back(size.c_str());
    out.port = {port.name.c_str(), static_cast<adapt_element>(port.element), port.shape.size(),
                out.shape.data()};
  }
  return result;
}

adapt_status *toC(const absl::Status &status) {
  if (status.ok())
    return nullptr;
  return new adapt_status{status.code() == absl::StatusCode::kInternal ? ADAPT_FAULT
                                                                       : ADAPT_REFUSED,
                          std::string(status.message())};
}

/// No exception (of an allocation, say) leaves.
template <typename Body> adapt_status *guard(Body body) {
  try {
    return toC(body());
  } catch (const std::exception &error) {
    return new adapt_status{ADAPT_FAULT, error.what()};
  }
}
} // namespace

struct adapt_model {
  std::unique_ptr<GraphModel> graph;
  std::unique_ptr<LanguageModel> language;
  std::vector<CPort> inputs, outputs;
};

struct adapt_results {
  std::vector<GraphModel::Output> outputs;
  std::vector<adapt_tensor> tensors;
};

adapt_code adapt_status_code(const adapt_status *status) { return status->code; }
const char *adapt_status_message(const adapt_status *status) { return status->message.c_str(); }
void adapt_status_free(adapt_status *status) { delete status; }

adapt_status *adapt_model_load(const char *bundle, const adapt_load_options *given,
                               adapt_model **model) {
  return guard([&]() -> absl::Status {
    *model = nullptr;
    // Callers that were built with an older, shorter struct get defaults for the rest.
    adapt_load_options options = {};
    if (given)
      std::memcpy(&options, given, std::min(given->size, sizeof(options)));
    Bundle::Options bundleOptions;
    bundleOptions.verifyHashes = options.verify_hashes;
    ADAPT_ASSIGN_OR_RETURN(Bundle opened, Bundle::open(bundle, bundleOptions));
    OpenDeviceOptions where;
    where.device = options.device ? options.device : "";
    where.laneOrder = options.lane_order ? options.lane_order : "";
    where.threads = options.threads;
    ADAPT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, openDevice(opened.manifest(), where));
    auto result = std::make_unique<adapt_model>();
    if (opened.manifest().kind == "graph") {
      GraphModel::Options graph;
      graph.poison = options.poison;
      ADAPT_ASSIGN_OR_RETURN(result->graph, GraphModel::load(opened, std::move(device), graph));
      result->inputs = describe(result->graph->inputs());
      result->outputs = describe(result->graph->outputs());
    } else {
      LanguageModel::Options language;
      language.cacheTokens = options.cache_tokens;
      language.poison = options.poison;
      ADAPT_ASSIGN_OR_RETURN(result->language,
                             LanguageModel::load(opened, std::move(device), language));
    }
    *model = result.release();
    return absl::OkStatus();
  });
}

void adapt_model_free(adapt_model *model) { delete model; }

adapt_kind adapt_model_kind(const adapt_model *model) {
  return model->graph ? ADAPT_GRAPH : ADAPT_LANGUAGE_MODEL;
}

size_t adapt_graph_num_inputs(const adapt_model *model) { return model->inputs.size(); }
size_t adapt_graph_num_outputs(const adapt_model *model) { return model->outputs.size(); }
const adapt_port *adapt_graph_input(const adapt_model *model, size_t index) {
  return index < model->inputs.size() ? &model->inputs[index].port : nullptr;
}
const adapt_port *adapt_graph_output(const adapt_model *model, size_t index) {
  return index < model->outputs.size() ? &model->outputs[index].port : nullptr;
}

adapt_status *adapt_graph_run(adapt_model *model, const adapt_tensor *inputs, size_t count,
                              adapt_results **results) {
  return guard([&]() -> absl::Status {
    *results = nullptr;
    if (!model->graph)
      return absl::InvalidArgumentError("the bundle holds a language model, not a graph");
    std::vector<GraphModel::Input> bound;
    for (size_t i = 0; i < count; ++i)
      bound.push_back({inputs[i].name, static_cast<adapt::schema::ElementType>(inputs[i].element),
                       std::vector<int64_t>(inputs[i].shape, inputs[i].shape + inputs[i].rank),
                       inputs[i].data});
    auto held = std::make_unique<adapt_results>();
    ADAPT_ASSIGN_OR_RETURN(held->outputs, model->graph->run(bound));
    for (const GraphModel::Output &output : held->outputs)
      held->tensors.push_back({output.name.c_str(), static_cast<adapt_element>(output.element),
                               output.shape.size(), output.shape.data(), output.data.data()});
    *results = held.release();
    return absl::OkStatus();
  });
}

size_t adapt_results_count(const adapt_results *results) { return results->tensors.size(); }
const adapt_tensor *adapt_results_get(const adapt_results *results, size_t index) {
  return index < results->tensors.size() ? &results->tensors[index] : nullptr;
}
void adapt_results_free(adapt_results *results) { delete results; }

int64_t adapt_language_vocab_size(const adapt_model *model) {
  return model->language ? model->language->vocabSize() : 0;
}
int64_t adapt_language_max_seq_len(const adapt_model *model) {
  return model->language ? model->language->maxSeqLen() : 0;
}

namespace {
absl::Status needsLanguageModel(const adapt_model *model) {
  return model->language
             ? absl::OkStatus()
             : absl::InvalidArgumentError("the bundle holds a graph, no language model");
}
} // namespace

adapt_status *adapt_language_add_sequence(adapt_model *model, uint64_t *sequence) {
  return guard([&]() -> absl::Status {
    ADAPT_RETURN_IF_ERROR(needsLanguageModel(model));
    *sequence = model->language->addSequence();
    return absl::OkStatus();
  });
}

void adapt_language_remove_sequence(adapt_model *model, uint64_t sequence) {
  if (model->language)
    model->language->removeSequence(sequence);
}

adapt_status *adapt_language_step(adapt_model *model, const adapt_chunk *chunks, size_t count,
                                  adapt_logits logits, void *user) {
  return guard([&]() -> absl::Status {
    ADAPT_RETURN_IF_ERROR(needsLanguageModel(model));
    std::vector<LanguageModel::Chunk> batch;
    for (size_t i = 0; i < count; ++i)
      batch.push_back({chunks[i].sequence, absl::MakeConstSpan(chunks[i].tokens, chunks[i].count),
                       !logits                ? LanguageModel::Logits::kNone
                       : chunks[i].all_logits ? LanguageModel::Logits::kAll
                                              : LanguageModel::Logits::kLast});
    return model->language->step(
        batch, [&](size_t chunk, int64_t token, absl::Span<const float> row) -> absl::Status {
          if (logits && logits(user, chunk, token, row.data()) != 0)
            return absl::CancelledError("the caller of the step ended it");
          return absl::OkStatus();
        });
  });
}
