// What comes in next and what leaves for it: by hand, and a device with crawling moves run at random.
#include "policy/turn_chooser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace spillway::policy {
namespace {

using Turned = std::vector<std::uint32_t>;

constexpr TurnPlace kOnHost = TurnPlace::host, kComing = TurnPlace::coming, kThere = TurnPlace::in_hbm,
                    kLeaving = TurnPlace::leaving;
constexpr Bytes kTurn = 32_MiB;  // crawls in 20 ms

Nanoseconds after(double count) { return Nanoseconds(static_cast<std::int64_t>(count * 1e6)); }

TurnPiece turn_piece(StretchMask used) { return {kTurn, used, used}; }

// Piece i is used in stretch i, of as many, 10 ms each.
TurnChooser in_turn(std::uint32_t count, std::uint64_t room, double milliseconds = 10) {
  std::vector<TurnPiece> pieces;
  for (std::uint32_t i = 0; i < count; ++i) pieces.push_back(turn_piece(StretchMask{1} << i));
  return {std::move(pieces), std::vector<double>(count, milliseconds * 1e-3), kTurn * room, {}};
}

TEST(TurnChooser, SkipsWhatCannotArrive) {
  TurnChooser chooser = in_turn(8, 1);
  const std::vector<TurnPlace> places(8, kOnHost);
  // 20 ms, and half of that for safety: stretch 3 begins in 30.
  EXPECT_EQ(chooser.choose(places, after(0)).in, Turned{3});
  EXPECT_EQ(chooser.choose(places, after(1)).in, Turned{4});
  chooser.reached(0, 0.5, after(6));
  EXPECT_EQ(chooser.choose(places, after(6)).in, Turned{4}) << "in 35 ms";
  chooser.reached(1, 0.4, after(13));
  EXPECT_EQ(chooser.choose(places, after(13)).in, Turned{5}) << "4 is in use in 26 ms, and it was idle for a stretch";
}

TEST(TurnChooser, WhatIsOnItsWayComesFirst) {
  TurnChooser chooser = in_turn(16, 3);
  std::vector<TurnPlace> places(16, kOnHost);
  EXPECT_EQ(chooser.choose(places, after(0)).in, (Turned{3, 6})) << "one after the other";
  places[3] = kComing;
  EXPECT_EQ(chooser.choose(places, after(0)).in, Turned{6});
  places[6] = kComing;
  EXPECT_TRUE(chooser.choose(places, after(0)).in.empty()) << "and no more for now";
}

TEST(TurnChooser, LearnsHowFastMovesAre) {
  TurnChooser chooser = in_turn(8, 1);
  const std::vector<TurnPlace> places(8, kOnHost);
  for (int i = 0; i < 20; ++i) {
    chooser.choose(places, after(i));
    chooser.moved(kTurn, kThere, after(i + 1));
  }
  chooser.reached(0, 0, after(20));
  EXPECT_EQ(chooser.choose(places, after(20)).in, Turned{1});
}

// Else a rate that was bad once would never be tried again.
TEST(TurnChooser, ForgetsARateWithTime) {
  TurnChooser chooser = in_turn(4, 1, 2);
  const std::vector<TurnPlace> places(4, kOnHost);
  EXPECT_TRUE(chooser.choose(places, after(0)).in.empty()) << "an iteration takes 8 ms, a move 20";
  bool comes = false;
  for (std::uint32_t k = 1; k < 100 && !comes; ++k) {
    chooser.reached(k % 4, 0, after(2 * k));
    comes = !chooser.choose(places, after(2 * k)).in.empty();
  }
  EXPECT_TRUE(comes);
}

TEST(TurnChooser, WhatLeavesIsUsedLast) {
  TurnChooser chooser = in_turn(24, 3);
  std::vector<TurnPlace> places(24, kOnHost);
  places[1] = places[0] = places[23] = kThere;
  chooser.reached(1, 0, after(10));
  const auto choice = chooser.choose(places, after(10));
  EXPECT_EQ(choice.out, (Turned{0, 23})) << "1 is in use, 0 is used again last, and before it 23";
  EXPECT_TRUE(choice.in.empty()) << "there is no room yet";
  places[0] = places[23] = kLeaving;
  EXPECT_TRUE(chooser.choose(places, after(10)).in.empty());
  places[0] = kOnHost;
  chooser.reached(3, 0, after(30));
  EXPECT_EQ(chooser.choose(places, after(30)).in, Turned{6})
      << "what can still be there, whatever was thought of first";
}

TEST(TurnChooser, NothingLeavesForWhatIsUsedLater) {
  TurnChooser chooser = in_turn(16, 2);
  std::vector<TurnPlace> places(16, kOnHost);
  places[6] = places[8] = kThere;
  const auto choice = chooser.choose(places, after(0));
  EXPECT_TRUE(choice.out.empty() && choice.in.empty()) << "out, in and back: none has the time for it before 8";
}

TEST(TurnChooser, WhatIsNotWorthComingBackStays) {
  std::vector<TurnPiece> pieces{turn_piece(0b1), turn_piece(0b100'0000)};
  pieces[0].turns = 0;
  pieces[0].used |= 0b1'0000'0000'0000;
  TurnChooser chooser(pieces, std::vector<double>(16, 0.01), kTurn, {});
  chooser.reached(1, 0, after(10));
  EXPECT_TRUE(chooser.choose(std::vector{kThere, kOnHost}, after(10)).out.empty());
}

TEST(TurnChooser, WhatCameLateStaysUntilItIsUsed) {
  TurnChooser chooser = in_turn(16, 1);
  std::vector<TurnPlace> places(16, kOnHost);
  ASSERT_EQ(chooser.choose(places, after(0)).in, Turned{3});
  places[3] = kComing;
  for (std::uint32_t k = 1; k <= 5; ++k) chooser.reached(k, 0, after(10 * k)), chooser.choose(places, after(10 * k));
  places[3] = kThere;  // in stretch 5, after its use
  for (std::uint32_t k = 6; k <= 19; ++k) {
    chooser.reached(k % 16, 0, after(10 * k));
    EXPECT_TRUE(chooser.choose(places, after(10 * k)).out.empty()) << "stretch " << k;
  }
  chooser.reached(4, 0, after(200));
  EXPECT_EQ(chooser.choose(places, after(200)).out, Turned{3}) << "it was used";
}

TEST(TurnChooser, ALeadIsKept) {
  std::vector<TurnPiece> pieces{turn_piece(StretchMask{1} << 6U)};
  const std::vector<double> seconds(16, 0.01);
  const std::vector<TurnPlace> places{kOnHost};
  EXPECT_EQ(TurnChooser(pieces, seconds, kTurn, {}).choose(places, after(0)).in, Turned{0});
  pieces[0].least_lead = 5;
  EXPECT_EQ(TurnChooser(pieces, seconds, kTurn, {}).choose(places, after(0)).in.size(), 0u) << "not there by stretch 2";
  pieces[0].least_lead = 4;
  EXPECT_EQ(TurnChooser(pieces, seconds, kTurn, {}).choose(places, after(0)).in, Turned{0}) << "and by 3";
}

// Moves that take as long as they like, marks that are missed: the limit is kept, and nothing leaves unused.
TEST(TurnChooser, RandomDevicesKeepWhatItPromises) {
  std::mt19937 random(20261130);  // NOLINT: the same every time
  const auto below = [&random](std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); };
  int left = 0;
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t count = 4 + below(kMostStretches - 3);
    std::vector<TurnPiece> pieces;
    for (std::uint32_t i = 0; i < 4 + below(60); ++i) {
      pieces.push_back(turn_piece(StretchMask{1} << below(count)));
      pieces.back().bytes = kChunk * (1 + below(16));
    }
    const Bytes limit = kChunk * (16 + below(64));
    TurnChooser chooser(pieces, std::vector<double>(count, 0.005), limit, {});
    std::vector<TurnPlace> places(pieces.size(), kOnHost);
    std::vector<bool> unused(pieces.size());
    std::uint32_t stretch = 0;
    Nanoseconds now;
    for (int step = 0; step < 600; ++step) {
      now = now + after(1 + below(3));
      if (below(2) == 0) {
        const std::uint32_t next = (stretch + 1 + (below(8) == 0 ? below(3) : 0)) % count;
        for (std::uint32_t i = 0; i < pieces.size(); ++i) {
          for (std::uint32_t k = stretch; k != next; k = (k + 1) % count) {
            if ((pieces[i].used >> k & 1U) != 0 && places[i] == kThere) unused[i] = false;
          }
        }
        stretch = next;
        chooser.reached(stretch, 0, now);
      }
      for (std::uint32_t i = 0; i < pieces.size(); ++i) {
        if ((places[i] != kComing && places[i] != kLeaving) || below(4) != 0) continue;
        places[i] = places[i] == kComing ? kThere : kOnHost;
        chooser.moved(pieces[i].bytes, places[i], now);
      }
      const auto choice = chooser.choose(places, now);
      for (const std::uint32_t i : choice.out) {
        ASSERT_EQ(places[i], kThere);
        ASSERT_FALSE(unused[i]) << "round " << round << " step " << step << " piece " << i;
        places[i] = kLeaving;
        ++left;
      }
      for (const std::uint32_t i : choice.in) {
        ASSERT_EQ(places[i], kOnHost);
        places[i] = kComing;
        unused[i] = true;
      }
      Bytes held;
      for (std::uint32_t i = 0; i < pieces.size(); ++i) held += places[i] == kOnHost ? Bytes() : pieces[i].bytes;
      ASSERT_LE(held, limit) << "round " << round << " step " << step;
    }
  }
  EXPECT_GT(left, 1000);
}

}  // namespace
}  // namespace spillway::policy
