#include "tools/sqlite_database.hpp"

#include <sqlite3.h>

#include <cerrno>
#include <cstring>

namespace spillway::tools {

SqliteInsert& SqliteInsert::integer(std::uint64_t value) {
  sqlite3_bind_int64(statement_, next_++, static_cast<sqlite3_int64>(value));
  return *this;
}

SqliteInsert& SqliteInsert::integer_or_null(bool present, std::uint64_t value) {
  if (present) return integer(value);
  sqlite3_bind_null(statement_, next_++);
  return *this;
}

SqliteInsert& SqliteInsert::real(double value) {
  sqlite3_bind_double(statement_, next_++, value);
  return *this;
}

SqliteInsert& SqliteInsert::text(std::string_view value) {
  // SQLite copies it: the caller's text may be gone when the row is put.
  sqlite3_bind_text64(statement_, next_++, value.data(), value.size(),
                      reinterpret_cast<sqlite3_destructor_type>(std::intptr_t{-1}), SQLITE_UTF8);
  return *this;
}

void SqliteInsert::put() {
  next_ = 1;
  if (*error_ != 0) return;
  const int result = sqlite3_step(statement_);
  sqlite3_reset(statement_);
  if (result != SQLITE_DONE) *error_ = result;
}

SqliteDatabase::~SqliteDatabase() { static_cast<void>(close()); }

std::optional<std::string> read_value(const std::string& path, const char* sql) {
  std::optional<std::string> value;
  sqlite3* database = nullptr;
  sqlite3_stmt* query = nullptr;
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY, nullptr) == SQLITE_OK &&
      sqlite3_prepare_v2(database, sql, -1, &query, nullptr) == SQLITE_OK && sqlite3_step(query) == SQLITE_ROW) {
    const unsigned char* const text = sqlite3_column_text(query, 0);
    if (text != nullptr) value = reinterpret_cast<const char*>(text);
  }
  sqlite3_finalize(query);
  sqlite3_close(database);
  return value;
}

std::optional<std::string> SqliteDatabase::create(const std::string& path) {
  const int result = sqlite3_open_v2(path.c_str(), &database_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (result != SQLITE_OK) return std::string(sqlite3_errmsg(database_));
  // The file counts only once it is whole and renamed, so nothing is kept safe on the way.
  run("PRAGMA journal_mode = OFF");
  run("PRAGMA synchronous = OFF");
  run("BEGIN");
  if (error_ == 0) return std::nullopt;
  return std::string(sqlite3_errmsg(database_));
}

void SqliteDatabase::run(const char* sql) {
  if (error_ != 0) return;
  error_ = sqlite3_exec(database_, sql, nullptr, nullptr, nullptr);
}

SqliteInsert& SqliteDatabase::insert_into(const char* table, int values) {
  std::string sql = "INSERT OR REPLACE INTO " + std::string(table) + " VALUES (?";
  for (int i = 1; i < values; ++i) sql += ",?";
  sql += ")";
  inserts_.push_back(std::make_unique<SqliteInsert>());
  SqliteInsert& insert = *inserts_.back();
  insert.error_ = &error_;
  const int result = sqlite3_prepare_v2(database_, sql.c_str(), -1, &insert.statement_, nullptr);
  if (result != SQLITE_OK && error_ == 0) error_ = result;
  return insert;
}

std::optional<std::string> SqliteDatabase::close() {
  if (database_ == nullptr) return std::nullopt;
  run("COMMIT");
  std::optional<std::string> problem;
  if (error_ != 0) problem = error_ == SQLITE_FULL ? std::strerror(ENOSPC) : sqlite3_errstr(error_);
  for (const auto& insert : inserts_) sqlite3_finalize(insert->statement_);
  inserts_.clear();
  const int result = sqlite3_close(database_);
  database_ = nullptr;
  if (!problem && result != SQLITE_OK) problem = sqlite3_errstr(result);
  return problem;
}

}  // namespace spillway::tools
