// What `spillway view` makes of a trace before a browser sees it. The browser's part: tests/viewer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "policy/trace/frame_builder.hpp"
#include "tests/support/process.hpp"
#include "tests/support/random_events.hpp"
#include "tests/support/sample_trace.hpp"
#include "tools/view/heat_map.hpp"
#include "tools/view/page.hpp"
#include "tools/view/residency_series.hpp"
#include "tools/view/time_bins.hpp"
#include "tools/view/trace_view.hpp"

namespace spillway::tools::view {
namespace {

using namespace policy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string unbase64(const std::string& text) {
  std::string out;
  std::uint32_t group = 0;
  int digits = 0;
  for (const char c : text) {
    const auto at = std::string_view("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/").find(c);
    if (at == std::string_view::npos) break;
    group = group << 6U | static_cast<std::uint32_t>(at);
    if (++digits % 4 != 0) continue;
    for (const unsigned shift : {16U, 8U, 0U}) out.push_back(static_cast<char>(group >> shift & 255U));
    group = 0;
  }
  const int left = digits % 4;
  if (left > 1) out.push_back(static_cast<char>(group >> (left == 2 ? 4U : 10U) & 255U));
  if (left > 2) out.push_back(static_cast<char>(group >> 2U & 255U));
  return out;
}

std::string inflated(const std::string& packed) {
  std::string out(1U << 22U, '\0');
  std::string in = packed;
  z_stream stream{};
  inflateInit2(&stream, -MAX_WBITS);
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

// As the page reads it, in 64 bits in place of doubles.
std::vector<std::int64_t> decode(const std::string& bytes, std::size_t& at, std::size_t rows) {
  std::vector<std::int64_t> values;
  std::int64_t value = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    std::uint64_t bits = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      bits |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) break;
    }
    EXPECT_LE(bits, std::uint64_t{1} << 53U) << "a double cannot hold it";
    value += (bits & 1U) == 0 ? static_cast<std::int64_t>(bits >> 1U) : -static_cast<std::int64_t>(bits >> 1U) - 1;
    values.push_back(value);
  }
  return values;
}

using TableOf = std::map<std::string, std::vector<std::int64_t>>;
TableOf table_of(const ViewData& data, const Json& block) {
  const std::string raw = inflated(unbase64(data.blocks.at(block["id"])));
  TableOf table;
  std::size_t at = 0;
  for (const auto& name : block["columns"]) table[name] = decode(raw, at, block["rows"]);
  EXPECT_EQ(at, raw.size());
  return table;
}

TEST(ViewColumn, KeepsEveryNumberThatADoubleCanHold) {
  const std::vector<std::int64_t> values = {0, -1, 1, 63, 64, -64, -65, 1'000'000'007, -5, std::int64_t{1} << 51U, 0};
  Column column;
  for (const std::int64_t value : values) column.add(value);
  std::size_t at = 0;
  EXPECT_EQ(decode(column.bytes(), at, values.size()), values);
}

TEST(ViewColumn, WhatOnlyDamageHasIsBounded) {
  Column column;
  column.add(~std::uint64_t{0});
  column.add(std::numeric_limits<std::int64_t>::min());
  column.add(std::int64_t{7});
  std::size_t at = 0;
  const std::int64_t most = std::int64_t{1} << 51U;
  EXPECT_THAT(decode(column.bytes(), at, 3), ElementsAre(most, -most, 7));
}

struct SumBin {
  double sum = 0;
  void merge(const SumBin& later) { sum += later.sum; }
};

TEST(ViewTimeBins, AddUpHoweverOftenTheyWiden) {
  TimeBins<SumBin> bins(64);
  std::mt19937_64 random(3);
  double total = 0;
  std::int64_t time = 0;
  std::vector<std::int64_t> times;
  for (int i = 0; i < 5000; ++i) {
    time += static_cast<std::int64_t>(random() % 100'000);
    times.push_back(time);
    bins.at(Nanoseconds(time)).sum += 1;
    bins.spread(Nanoseconds(time - 50'000), Nanoseconds(time + 2'000'000),
                [](SumBin& bin, double share) { bin.sum += share; });
    total += 2;
    ASSERT_LE(bins.bins().size(), 64U);
  }
  for (const std::size_t factor : {1U, 2U, 16U}) {
    const TimeBins<SumBin> level = bins.coarser(factor);
    EXPECT_EQ(level.width().count(), bins.width().count() * static_cast<std::int64_t>(factor));
    double sum = 0;
    for (const SumBin& bin : level.bins()) sum += bin.sum;
    EXPECT_NEAR(sum, total, 1e-6);
  }
  EXPECT_GT(static_cast<std::int64_t>(bins.bins().size()) * bins.width().count(), times.back());
}

TEST(ViewTimeBins, AnAbsurdTimeTakesNoMemory) {
  TimeBins<SumBin> bins(64);
  bins.at(Nanoseconds(5)).sum = 1;
  bins.at(Nanoseconds(std::numeric_limits<std::int64_t>::max())).sum = 1;
  bins.at(Nanoseconds(-9)).sum += 1;
  EXPECT_LE(bins.bins().size(), 64U);
  EXPECT_EQ(bins.bins().front().sum, 2);
}

TEST(ViewLanes, ABinSaysWhatMostOfItsLaunchesWere) {
  LaneBin first, second;
  for (int i = 0; i < 7; ++i) first.vote(i < 5 ? 8 : 10, 1);
  for (int i = 0; i < 6; ++i) second.vote(10, 1);
  EXPECT_EQ(first.code, 8U);
  first.merge(second);
  EXPECT_EQ(first.code, 10U);
}

TEST(ViewItems, WhatIsTooMuchIsCounted) {
  Blocks blocks;
  ItemBlocks items(1);  // a single block is more than that
  for (std::uint32_t i = 0; i < ItemBlocks::kRows + 10; ++i) items.add(blocks, Nanoseconds(i * 100), 0, 2, 0, i + 1);
  items.finish(blocks);
  EXPECT_EQ(items.directory().size(), 1U);
  EXPECT_EQ(items.left_out(), 10U);
  EXPECT_EQ(items.directory()[0]["number"], 1);
}

// Allocations of random size and life, half of them of a class.
std::vector<ListedAllocation> random_allocations(std::mt19937_64& random, std::size_t count) {
  std::vector<ListedAllocation> allocations(count);
  std::int64_t time = 0;
  for (std::size_t i = 0; i < count; ++i) {
    ListedAllocation& each = allocations[i];
    each.id = {static_cast<std::uint32_t>(i + 1)};
    each.asked = Nanoseconds(time += static_cast<std::int64_t>(random() % 1000));
    each.bytes = Bytes((1 + random() % 64) << 20U);
    each.backing = random() % 4 == 0 ? Backing::device : Backing::managed;
    each.settled = true;
    if (random() % 2 == 0) each.class_bytes[1 + random() % 6] = 1;
    if (random() % 3 != 0) each.freed = each.asked + Nanoseconds(static_cast<std::int64_t>(random() % 20'000));
  }
  return allocations;
}

TEST(ViewStack, WhatLivesAtOnceNeverSharesAPlace) {
  std::mt19937_64 random(11);
  const std::vector<ListedAllocation> all = random_allocations(random, 400);
  const StackLayout layout = stack(all);
  for (std::size_t a = 0; a < all.size(); ++a) {
    ASSERT_TRUE(layout.places[a].shown);
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      if (all[a].freed && *all[a].freed <= all[b].asked) continue;  // gone before b came
      const std::uint64_t from = layout.places[a].from, to = from + all[a].bytes.count();
      const std::uint64_t other = layout.places[b].from, end = other + all[b].bytes.count();
      ASSERT_TRUE(end <= from || to <= other) << a << " and " << b;
    }
  }
  std::uint64_t top = 0;
  for (const StackBand& band : layout.bands) {
    EXPECT_EQ(band.from, top);
    top = band.to;
  }
  EXPECT_EQ(layout.bands.front().name, "weights");
  EXPECT_EQ(layout.bands.back().name, "plain");
}

TEST(ViewPieces, SayWhereEveryChunkWas) {
  std::mt19937_64 random(5);
  std::vector<ListedAllocation> allocations(2);
  allocations[0].bytes = 64_MiB;
  allocations[1].bytes = 7_MiB;  // the last chunk is short
  std::vector<ViewMove> moves;
  std::vector<std::vector<Placement>> now = {std::vector(32, Placement::unpopulated),
                                             std::vector(4, Placement::unpopulated)};
  std::vector<std::vector<std::vector<Placement>>> after;  // each move
  for (int i = 0; i < 300; ++i) {
    ViewMove move;
    move.row = static_cast<Row>(random() % 2);
    auto& chunks = now[move.row];
    const std::uint64_t first = random() % chunks.size();
    const std::uint64_t count = 1 + random() % (chunks.size() - first);
    move.offset = kChunk * first;
    move.bytes = std::min(kChunk * count, allocations[move.row].bytes - move.offset);
    move.to = random() % 2 == 0 ? Placement::device : Placement::host;
    move.outcome = random() % 5 == 0 ? MoveOutcome::cancelled : MoveOutcome::done;
    move.end = Nanoseconds(1000 * (i + 1));
    for (std::uint64_t c = first; c < first + count && move.outcome == MoveOutcome::done; ++c) chunks[c] = move.to;
    moves.push_back(move);
    after.push_back(now);
  }
  const std::vector<Piece> pieces = cut_into_pieces(allocations, moves);
  for (std::size_t i = 0; i < moves.size(); ++i) {
    for (Row row = 0; row < 2; ++row) {
      for (std::size_t chunk = 0; chunk < now[row].size(); ++chunk) {
        Placement found = Placement::unpopulated;
        for (const Piece& piece : pieces) {
          if (piece.row != row || piece.offset > kChunk * chunk) continue;
          found = Placement::unpopulated;
          for (const PieceChange& change : piece.changes) {
            if (change.time <= moves[i].end) found = change.to;
          }
        }
        ASSERT_EQ(found, after[i][row][chunk]) << "move " << i << ", chunk " << chunk;
      }
    }
  }
}

// A peak of a moment must be seen from afar, or a broken budget would not be.
TEST(ViewResidency, AnInstantAboveTheBudgetIsInEveryLevel) {
  ResidencySeries series;
  DeviceTotals totals;
  for (int i = 0; i < 200'000; ++i) {
    totals.resident = Bytes(static_cast<std::uint64_t>(i % 7) << 20U);
    if (i == 123'456) totals.resident = 5_GiB;
    series.add(Nanoseconds(1'000'000LL * i), totals, {});
  }
  ViewData data;
  Blocks blocks;
  const Json levels = series.to_json(blocks);
  data.blocks = blocks.encoded();
  ASSERT_EQ(levels.size(), 3U);
  for (const Json& level : levels) {
    TableOf table = table_of(data, level);
    const auto peak = std::max_element(table["resident"].begin(), table["resident"].end());
    EXPECT_EQ(*peak, static_cast<std::int64_t>((5_GiB).count()));
    EXPECT_EQ(table["time"][static_cast<std::size_t>(peak - table["resident"].begin())], 123'456'000'000);
    EXPECT_TRUE(std::is_sorted(table["time"].begin(), table["time"].end()));
    EXPECT_EQ(table["resident"].back(), 199'999 % 7 << 20);
  }
}

// The sample, written where view_trace can read it.
class ViewSample : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("view_" + std::to_string(::getpid()) + ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    write(path(), spillway::tests::sample_trace());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name = "sample.swt") const { return (folder_ / name).string(); }
  static void write(const std::string& path, std::span<const std::byte> bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
  static std::string text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static spillway::tests::ProcessResult view(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {SPILLWAY_COMMAND, "view"});
    return spillway::tests::run_process(arguments);
  }

  // A build without Node.js: the command says so, and what to do.
  void expect_remedy() const {
    const auto result = view({path()});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("built without the viewer; install Node.js"));
  }

  std::filesystem::path folder_;
};

TEST_F(ViewSample, FiguresAreThoseOfTheTrace) {
  const ViewReading reading = view_trace(path());
  ASSERT_FALSE(reading.problem) << *reading.problem;
  const ViewData& data = reading.data;
  const Json& of = data.directory;
  EXPECT_EQ(of["timeline"]["launches"], 30);
  EXPECT_EQ(of["timeline"]["lanes"].size(), 1U);
  EXPECT_EQ(of["refused"], 1);
  EXPECT_EQ(of["dropped"], 1);
  EXPECT_EQ(of["devices"][0]["budget"], (4_GiB).count());
  EXPECT_EQ(of["completeness"], "whole");
  TableOf allocations = table_of(data, of["allocations"]["table"]);
  EXPECT_THAT(allocations["id"], ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(allocations["end"], ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(allocations["launches"], ElementsAre(0, 30, 20, 0));
  EXPECT_THAT(allocations["moved_in"], ElementsAre(0, 2 << 20, 0, 0));
  EXPECT_THAT(allocations["moved_out"], ElementsAre(0, 4 << 20, 0, 0));
  EXPECT_THAT(allocations["populated"], ElementsAre(0, 5 << 20, 3 << 20, 0));
  TableOf moves = table_of(data, of["moves"]);
  EXPECT_THAT(moves["outcome"], ElementsAre(0, 0, 0, 0, 2));
  EXPECT_THAT(moves["crossed"], ElementsAre(0, 0, 1, 1, 0));
  TableOf residency = table_of(data, of["devices"][0]["residency"][0]);
  EXPECT_EQ(*std::max_element(residency["resident"].begin(), residency["resident"].end()), 5 << 20);
  EXPECT_EQ(residency["on_host"].back(), 5 << 20);
  const std::string evidence = inflated(unbase64(data.blocks.at(of["allocations"]["evidence"]["id"])));
  EXPECT_THAT(evidence, HasSubstr("gemm argument 0 (20), adam argument 0 (10)\ngemm argument 1 (20)\n"));
  const std::string sentences = inflated(unbase64(data.blocks.at(of["decisions"]["sentences"][0])));
  EXPECT_THAT(sentences,
              HasSubstr("4 MiB at offset 0 B of allocation 2 goes to the host, in the background, because it "
                        "was launched on least recently\n"));
}

TEST_F(ViewSample, APageHoldsAllAndNothingOfATraceEndsAnElement) {
  ViewData data;
  data.directory["program"] = "</script><script>alert(1)</script><!--";
  data.blocks = {"QUJD"};
  const std::string page = make_page("<html><!-- data --><p>after</p>", data);
  EXPECT_THAT(page, ::testing::StartsWith(std::string(kPageMark)));
  EXPECT_THAT(page, HasSubstr("<script type=\"text/plain\" id=\"block-0\">QUJD</script>"));
  EXPECT_THAT(page, ::testing::EndsWith("<p>after</p>"));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("<!-- data -->")));
}

TEST_F(ViewSample, TheCommandWritesAPageAndOnlyOverOneOfItsOwn) {
  if (page_template().empty()) return expect_remedy();
  const auto written = view({path(), "-o", path("page.html"), "--open", "no"});
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.out, path("page.html") + "\n");
  EXPECT_THAT(text(path("page.html")), ::testing::StartsWith(std::string(kPageMark)));
  spillway::tests::ProcessOptions in_folder;
  in_folder.folder = folder_.string();
  const auto here = [&in_folder] {
    return spillway::tests::run_process({SPILLWAY_COMMAND, "view", "sample.swt", "--open", "no"}, in_folder);
  };
  EXPECT_EQ(here().out, "sample.swt.html\n");
  EXPECT_EQ(here().exit_code, 0);
  std::ofstream(path("sample.swt.html")) << "somebody's notes";
  const auto refused = here();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("sample.swt.html: exists, and is no page of spillway view; name another file with -o"));
  EXPECT_EQ(text(path("sample.swt.html")), "somebody's notes");
}

TEST_F(ViewSample, WhatCannotBeShownIsOneLine) {
  if (page_template().empty()) return expect_remedy();
  const auto missing = view({path("none.swt")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("none.swt: cannot be opened: No such file or directory"));
  write(path("other.swt"), spillway::tests::sample_trace());
  const auto two = view({folder_.string()});
  EXPECT_EQ(two.exit_code, 2);
  EXPECT_THAT(two.err, HasSubstr("holds 2 traces, and a page shows one; name "));
  EXPECT_EQ(view({path(), "--serve", "-o", path("x.html")}).exit_code, 2);
  EXPECT_EQ(view({path(), "-o", path("no/such/folder.html")}).exit_code, 1);
}

TEST_F(ViewSample, EveryCutIsShownOrRefusedInALine) {
  const std::vector<std::byte> whole = spillway::tests::sample_trace();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    write(path("cut.swt"), std::span(whole).first(size));
    const ViewReading reading = view_trace(path("cut.swt"));
    if (reading.problem) {
      EXPECT_THAT(*reading.problem, HasSubstr("byte"));
    } else {
      EXPECT_FALSE(reading.data.directory["whole"].get<bool>());
      EXPECT_NE(reading.data.directory["completeness"], "whole");
      EXPECT_GT(make_page("<!-- data -->", reading.data).size(), kPageMark.size());
    }
  }
}

// Any ids, sizes, times and texts, extremes among them, in frames that are right.
TEST_F(ViewSample, AnythingThatAReaderLetsThroughIsSurvived) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    spillway::tests::RandomEvents random(seed);
    trace::FrameBuilder builder;
    std::vector<std::byte> file = trace::encode_file_start("{}");
    const auto put = [&file](const std::optional<trace::FrameBytes>& frame) {
      if (frame) file.insert(file.end(), frame->begin(), frame->end());
    };
    for (int i = 0; i < 3000; ++i) {
      const Nanoseconds time(static_cast<std::int64_t>(random.below(std::uint64_t{1} << (1 + random.below(62)))));
      if (random.below(2) == 0) {
        put(builder.add({time, random.event_body()}));
      } else {
        put(builder.add(time, random.decision()));
      }
    }
    put(builder.finish());
    write(path("random.swt"), file);
    const ViewReading reading = view_trace(path("random.swt"));
    ASSERT_FALSE(reading.problem) << *reading.problem;
    EXPECT_EQ(reading.data.directory["whole"], false);
    EXPECT_GT(make_page("<!-- data -->", reading.data).size(), kPageMark.size());
  }
}

}  // namespace
}  // namespace spillway::tools::view
