#include "dialects/Adapt/Rows.h"
#include "passes/Common/Structure.h"
#include "passes/Fuse/Passes.h"
#include "llvm/ADT/SetVector.h"
#include <set>

namespace adapt {
#define GEN_PASS_DEF_FORMDISPATCHES
#include "passes/Fuse/Passes.h.inc"
} // namespace adapt

using namespace mlir;
using namespace adapt;

namespace {
/// How an operation may join others.
enum class Role {
  Matmul, ///< takes elementwise operations after it
  Tree,   ///< joins operations whose rows it reads one by one
  Alone
};

Role getRole(Operation *op) {
  if (isa<MatmulOp, BatchMatmulOp, ConvOp>(op))
    return Role::Matmul;
  if (isa<StateOpInterface>(op) || !isa<ShardingRuleOpInterface>(op))
    return Role::Alone;
  return Role::Tree;
}

/// Whether row i (of the leading axis) of each result needs of the operand row i only.
bool isRowWise(OpOperand &operand) {
  Operation *op = operand.getOwner();
  auto type = dyn_cast<RankedTensorType>(operand.get().getType());
  if (!type || type.getRank() == 0)
    return false;
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  int factor = rule.operands[operand.getOperandNumber()][0];
  if (factor == ShardingRule::kNone)
    return false;
  for (auto [result, factors] : llvm::zip_equal(op->getResults(), rule.results)) {
    auto resultType = dyn_cast<RankedTensorType>(result.getType());
    if (!resultType || resultType.getRank() == 0 || factors[0] != factor ||
        getDims(resultType)[0] != getDims(type)[0])
      return false;
  }
  return true;
}

/// Operations that become one kernel. All values between them have one use, so that no path leaves
/// the group and comes back: it can stand where its last operation stands.
struct Group {
  Role role;
  llvm::SetVector<Operation *> ops; // in the order of the block once formed
  bool dead = false;                // merged into another
};

class Grouper {
public:
  explicit Grouper(Block &block) : block(block) {}

  /// Groups in the order in which they stand.
  SmallVector<Group *> run() {
    for (Operation &op : block) {
      position[&op] = position.size();
      if (isComputing(&op))
        place(&op);
    }
    mergeSiblings();
    SmallVector<Group *> result;
    for (auto &group : groups) {
      if (group->dead)
        continue;
      SmallVector<Operation *> sorted = group->ops.takeVector();
      // A reshape alone is the same memory under another type: no kernel.
      if (llvm::all_of(sorted, llvm::IsaPred<ReshapeOp>))
        continue;
      llvm::sort(sorted, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
      group->ops.insert(sorted.begin(), sorted.end());
      result.push_back(group.get());
    }
    llvm::sort(result, [&](Group *a, Group *b) {
      return position[a->ops.back()] < position[b->ops.back()];
    });
    return result;
  }

private:
  /// The group whose last operation makes `value`, if nobody but one operation needs it.
  Group *getOpenGroup(Value value) {
    Operation *producer = value.getDefiningOp();
    if (!producer || !value.hasOneUse() || producer->getBlock() != &block)
      return nullptr;
    return groupOf.lookup(producer);
  }

  void add(Group *group, Operation *op) {
    group->ops.insert(op);
    groupOf[op] = group;
  }

  void absorb(Group *group, Group *other) {
    for (Operation *op : other->ops)
      add(group, op);
    other->ops.clear();
    other->dead = true;
  }

  /// The matmuls whose results, of its own shape, an elementwise operation needs: they become one
  /// group. With them go broadcasts of weights, such as a bias. Null if there is none.
  Group *joinMatmuls(Operation *op) {
    Group *group = nullptr;
    SmallVector<Group *> broadcasts;
    for (Value operand : op->getOperands()) {
      Group *open = getOpenGroup(operand);
      if (!open || open == group || getShape(operand) != getShape(op->getResult(0)))
        continue;
      if (open->role == Role::Matmul) {
        SmallVector<Group *> others = {open};
        if (group)
          others.push_back(group);
        if (!canJoin(op, others))
          continue;
        if (group)
          absorb(open, group);
        group = open;
      } else if (llvm::all_of(open->ops, llvm::IsaPred<BroadcastOp>) && getInputs(open).empty()) {
        broadcasts.push_back(open);
      }
    }
    if (group)
      for (Group *broadcast : broadcasts)
        absorb(group, broadcast);
    return group;
  }

  void place(Operation *op) {
    Role role = getRole(op);
    Group *group = nullptr;
    if (isa<ElementwiseOpInterface>(op))
      group = joinMatmuls(op);
    if (!group && role == Role::Tree)
      for (OpOperand &operand : op->getOpOperands()) {
        Group *open = getOpenGroup(operand.get());
        if (!open || open->role != Role::Tree || open == group || !isRowWise(operand))
          continue;
        SmallVector<Group *> others = {open};
        if (group)
          others.push_back(group);
        if (!canJoin(op, others))
          continue;
        if (group)
          absorb(open, group);
        group = open;
      }
    if (!group) {
      group = groups.emplace_back(std::make_unique<Group>()).get();
      group->role = role;
    }
    add(group, op);
  }

  SmallVector<Operation *> inOrder(SmallVector<Operation *> ops) {
    llvm::sort(ops, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
    return ops;
  }

  /// The results that others need.
  static SmallVector<Value> getLeaving(ArrayRef<Operation *> ops) {
    SmallVector<Value> values;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (result.use_empty() || llvm::any_of(result.getUsers(), [&](Operation *user) {
              return !llvm::is_contained(ops, user);
            }))
          values.push_back(result);
    return values;
  }

  /// The row axes of operations as one kernel; nullopt if that would have to keep a value whose
  /// size is not constant, or a large one, or one that it would compute for several rows.
  static std::optional<Rows> getRows(ArrayRef<Operation *> ops) {
    constexpr int64_t kMaxKeptBytes = 1 << 16;
    SmallVector<Value> results = getLeaving(ops);
    Rows rows = Rows::compute(ops, results, Rows::getWanted(results));
    auto isLoop = [](Operation *op) {
      return isa<ElementwiseOpInterface, BroadcastOp, DecomposeOpInterface>(op);
    };
    for (Operation *op : ops)
      for (Value result : op->getResults()) {
        auto readsInLoop = [&](Operation *user) { return isLoop(user) || isa<ReduceOp>(user); };
        // The code generator keeps products of weights in registers.
        if (llvm::is_contained(results, result) || isa<MatmulOp>(op) ||
            (isLoop(op) && llvm::all_of(result.getUsers(), readsInLoop)))
          continue;
        RankedTensorType type = rows.getRowType(result);
        auto bytes = dyn_cast_or_null<AffineConstantExpr>(getNumBytes(type));
        if (!bytes || bytes.getValue() > kMaxKeptBytes || !rows.isSplitInAll(result))
          return std::nullopt;
      }
    return rows;
  }

  /// Whether an operation and groups that it reads can be one kernel with as many row axes.
  bool canJoin(Operation *op, ArrayRef<Group *> others) {
    size_t count = 1;
    for (Group *group : others)
      count += group->ops.size();
    if (count > kMaxOperations)
      return false;
    std::optional<Rows> alone = getRows({op});
    SmallVector<Operation *> ops = {op};
    for (Group *group : others)
      llvm::append_range(ops, group->ops);
    std::optional<Rows> together = getRows(inOrder(ops));
    return together && (!alone || together->count() >= alone->count());
  }

  static SmallVector<AffineExpr> getShape(Value value) {
    return getDims(cast<RankedTensorType>(value.getType()));
  }

  Operation *getLast(Group *group) {
    return *llvm::max_element(
        group->ops, [&](Operation *a, Operation *b) { return position[a] < position[b]; });
  }

  /// The values that a group of trees reads from other operations.
  llvm::SetVector<Value> getInputs(Group *group) {
    llvm::SetVector<Value> inputs;
    for (Operation *op : group->ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            producer && isComputing(producer) && !group->ops.contains(producer))
          inputs.insert(operand);
    return inputs;
  }

  /// The leading size that all results share, or null.
  AffineExpr getLeadingSize(Group *group) {
    AffineExpr size;
    for (Operation *op : group->ops)
      for (Value result : op->getResults()) {
        if (llvm::all_of(result.getUsers(),
                         [&](Operation *user) { return group->ops.contains(user); }))
          continue;
        SmallVector<AffineExpr> shape = getShape(result);
        if (shape.empty() || (size && shape.front() != size))
          return {};
        size = shape.front();
      }
    return size;
  }

  /// Trees of the same input become one group, if that can stand where the last of them stands:
  /// nobody may need an earlier result before.
  void mergeSiblings() {
    SmallVector<Group *> trees;
    for (auto &group : groups)
      if (!group->dead && group->role == Role::Tree &&
          !llvm::all_of(group->ops, llvm::IsaPred<ReshapeOp>))
        trees.push_back(group.get());
    llvm::sort(trees,
               [&](Group *a, Group *b) { return position[getLast(a)] < position[getLast(b)]; });
    llvm::DenseMap<Group *, size_t> index;
    for (auto [i, tree] : llvm::enumerate(trees))
      index[tree] = i;
    for (size_t i = 0; i < trees.size(); ++i) {
      if (trees[i]->dead)
        continue;
      // Later trees that read what this one, as it grows, reads too.
      std::set<size_t> candidates;
      auto addCandidates = [&](size_t after) {
        for (Value input : getInputs(trees[i]))
          for (Operation *user : input.getUsers())
            if (auto it = index.find(groupOf.lookup(user)); it != index.end() && it->second > after)
              candidates.insert(it->second);
      };
      addCandidates(i);
      while (!candidates.empty()) {
        size_t j = *candidates.begin();
        candidates.erase(candidates.begin());
        if (trees[j]->dead || !canMerge(trees[i], trees[j]))
          continue;
        absorb(trees[i], trees[j]);
        addCandidates(j);
      }
    }
  }

  bool canMerge(Group *first, Group *second) {
    if (first->ops.size() + second->ops.size() > kMaxOperations)
      return false;
    AffineExpr size = getLeadingSize(first);
    if (!size || size != getLeadingSize(second))
      return false;
    llvm::SetVector<Value> inputs = getInputs(first);
    if (llvm::none_of(getInputs(second), [&](Value input) { return inputs.contains(input); }))
      return false;
    unsigned end = std::max(position[getLast(first)], position[getLast(second)]);
    for (Group *group : {first, second})
      for (Operation *op : group->ops)
        for (Operation *user : op->getUsers())
          if (!group->ops.contains(user) && getPosition(user) <= end)
            return false;
    SmallVector<Operation *> ops(first->ops.begin(), first->ops.end());
    llvm::append_range(ops, second->ops);
    auto getRowsOf = [&](Group *group) {
      return getRows(inOrder(SmallVector<Operation *>(group->ops.begin(), group->ops.end())));
    };
    std::optional<Rows> a = getRowsOf(first), b = getRowsOf(second), both = getRows(inOrder(ops));
    return a && b && both && both->count() >= std::max(a->count(), b->count());
  }

  /// Of an operation of the block, or of one in a region of such.
  unsigned getPosition(Operation *op) { return position.lookup(block.findAncestorOpInBlock(*op)); }

  /// Of one kernel: what it takes to compile grows faster than they do.
  static constexpr size_t kMaxOperations = 128;

  Block &block;
  SmallVector<std::unique_ptr<Group>> groups;
  llvm::DenseMap<Operation *, Group *> groupOf;
  llvm::DenseMap<Operation *, unsigned> position;
};

struct FormDispatches : adapt::impl::FormDispatchesBase<FormDispatches> {
  using Base::Base;

  void runOnOperation() override {
    for (Block &block : getOperation().getBody()) {
      repeatSplats(block);
      Grouper grouper(block);
      for (Group *group : grouper.run())
        form(group->ops.getArrayRef());
      placeConstants(block);
    }
  }

  /// A constant that fills a tensor is no memory to be read: each user has its own.
  static void repeatSplats(Block &block) {
    for (auto splat : llvm::make_early_inc_range(block.getOps<BroadcastOp>())) {
      if (!splat.getInput().getDefiningOp<ConstantOp>())
        continue;
      bool first = true;
      for (OpOperand &use : llvm::make_early_inc_range(splat->getUses())) {
        if (std::exchange(first, false) || use.getOwner()->hasTrait<OpTrait::IsTerminator>())
          continue;
        OpBuilder builder(use.getOwner());
        use.set(builder.clone(*splat)->getResult(0));
      }
    }
  }

  /// The operations, in order, become a dispatch where the last of them stands.
  static DispatchOp form(ArrayRef<Operation *> ops) {
    llvm::DenseSet<Operation *> inside(ops.begin(), ops.end());
    auto leaves = [&](Value result) {
      bool used =
          llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); });
      // A state that was taken must be returned.
      return used || (isa<PagedType>(result.getType()) && result.use_empty());
    };
    SmallVector<Value> results;
    SmallVector<Type> types;
    SmallVector<Location> locations;
    for (Operation *op : ops) {
      locations.push_back(op->getLoc());
      for (Value result : op->getResults())
        if (leaves(result)) {
          results.push_back(result);
          types.push_back(result.getType());
        }
    }
    OpBuilder builder(ops.back());
    Location loc = builder.getFusedLoc(locations);
    auto dispatch = DispatchOp::create(builder, loc, types);
    Block &body = dispatch.getBody().emplaceBlock();
    for (Operation *op : ops) {
      op->removeAttr(kImplementation); // What a dispatch holds is generated.
      op->moveBefore(&body, body.end());
    }
    builder.setInsertionPointToEnd(&body);
    YieldOp::create(builder, loc, results);
    for (auto [result, outer] : llvm::zip_equal(results, dispatch.getResults()))
      result.replaceUsesWithIf(outer, [&](OpOperand &use) {
        return use.getOwner()->getParentOp() != dispatch.getOperation();
      });
    return dispatch;
  }

  /// Constants move to where they are used; one that a call or the function returns is computed by
  /// a dispatch of its own.
  static void placeConstants(Block &block) {
    for (auto constant : llvm::make_early_inc_range(block.getOps<ConstantOp>())) {
      for (OpOperand &use : llvm::make_early_inc_range(constant->getUses())) {
        auto dispatch = dyn_cast<DispatchOp>(use.getOwner()->getParentOp());
        if (!dispatch)
          continue;
        OpBuilder builder = OpBuilder::atBlockBegin(&dispatch.getBody().front());
        use.set(builder.clone(*constant)->getResult(0));
      }
      if (constant->use_empty())
        constant.erase();
      else
        form({constant.getOperation()});
    }
  }
};
} // namespace
