// A SQLite file that is only filled: prepared inserts in one transaction. docs/sqlite_schema.md is the schema.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace spillway::tools {

// One prepared INSERT. Bind the values in the order of the columns, then put.
class SqliteInsert {
 public:
  SqliteInsert& integer(std::uint64_t value);  // beyond 2^63 it becomes negative, as SQLite's integers are
  SqliteInsert& integer_or_null(bool present, std::uint64_t value);
  SqliteInsert& real(double value);
  SqliteInsert& text(std::string_view value);
  void put();

 private:
  friend class SqliteDatabase;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
  int* error_ = nullptr;
};

// The first value that the query finds in the file; nothing if there is none, or it cannot be read.
std::optional<std::string> read_value(const std::string& path, const char* sql);

class SqliteDatabase {
 public:
  SqliteDatabase() = default;
  ~SqliteDatabase();
  SqliteDatabase(const SqliteDatabase&) = delete;
  SqliteDatabase& operator=(const SqliteDatabase&) = delete;

  // In a new file, or an empty one. The problem is a reason in words.
  std::optional<std::string> create(const std::string& path);
  void run(const char* sql);
  // "INSERT INTO <table> VALUES (?, ...)" with that many values.
  SqliteInsert& insert_into(const char* table, int values);
  [[nodiscard]] bool failed() const { return error_ != 0; }
  std::optional<std::string> close();

 private:
  sqlite3* database_ = nullptr;
  std::vector<std::unique_ptr<SqliteInsert>> inserts_;
  int error_ = 0;
};

}  // namespace spillway::tools
