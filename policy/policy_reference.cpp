#include "policy/policy_reference.hpp"

#include <string_view>

#include "policy/rule_keys.hpp"
#include "policy/settings.hpp"

namespace spillway::policy {
namespace {

constexpr std::string_view kHead = R"(# Policy reference

<!-- Made by `spillway check --reference`. Do not edit: change policy/settings.cpp or policy/rule_keys.cpp. -->

A setting can come from three places: the environment, a flag of `spillway run`, and a policy file. A flag wins over the
environment, the environment over the file. A value that cannot be read is named with its place and a remedy.

`spillway check FILE` names every mistake in a policy file at once; with `--trace T` it also says what each rule would match
in that trace. Examples are in `examples/policies/`.

Sizes are written with their unit: KiB, MiB, GiB and TiB are powers of two, KB, MB, GB and TB powers of ten, and a number
alone is bytes, if it comes to 2 MiB or more (less is asked about). A share is a percentage, such as 80% or 12.5%.

## Settings
)";

constexpr std::string_view kRules = R"(
## Rules

A policy file may hold up to 256 rules, each under `[[rule]]`. For memory that a kernel touches, the first rule of which all
conditions hold decides, and no other. When memory is asked for no kernel is known yet: then the first rule decides that
needs to know none (no `kernel`, `argument` or `class`).

`place` and `backing` are pins: the memory stays as they say for the whole run, as far as the budgets allow. `evict` is a hint,
for the order in which memory leaves. Neither changes a result.

```toml
[[rule]]
name  = "adam states"
match = { kernel = "*adam*", argument = [2, 3] }
place = "host"
```

### Keys of a rule
)";

constexpr std::string_view kMatch = R"(
### Keys of `match`

At least one; all that are there must hold. A rule for everything is `match = { size = "0.." }`.
)";

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void setting(std::string& out, const SettingRow& row) {
  out += "\n### `" + std::string(row.key) + "`\n\n" + std::string(row.sentence) + "\n\n";
  out += "| environment | flag | type | default | range |\n|---|---|---|---|---|\n";
  const std::string default_text = row.default_text.empty() ? "none" : "`" + std::string(row.default_text) + "`";
  const bool choice = row.kind == SettingKind::choice;
  out += "| `" + row.environment_name() + "` | `" + row.flag_name() + "` | " + cell(choice ? "text" : row.type) +
         " | " + cell(default_text) + " | " + cell(row.range) + " |\n";
}

void keys(std::string& out, RuleKeyPlace place) {
  out += "\n| key | type | range | meaning |\n|---|---|---|---|\n";
  for (const RuleKeyRow& row : rule_keys()) {
    if (row.place != place) continue;
    out += "| `" + std::string(row.key) + "` | " + cell(row.type) + " | " + cell(row.range) + " | " +
           cell(row.sentence) + " |\n";
  }
}

}  // namespace

std::string policy_reference() {
  std::string out(kHead);
  for (const SettingRow& row : setting_table()) setting(out, row);
  out += kRules;
  keys(out, RuleKeyPlace::rule);
  out += kMatch;
  keys(out, RuleKeyPlace::match);
  return out;
}

}  // namespace spillway::policy
