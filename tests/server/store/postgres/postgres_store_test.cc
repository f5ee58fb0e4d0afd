// PostgresStore where PostgreSQL, its connections or its owner change. What it shares with other
// stores is in store_conformance_test.cc.
#include "server/store/postgres/postgres_store.h"

#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/postgres/leader_table.h"
#include "server/store/postgres/pg_session.h"
#include "server/store/postgres/postgres_access_store.h"
#include "server/store/postgres/postgres_stores.h"
#include "tests/testing/postgres_cluster.h"
#include "tests/testing/postgres_proxy.h"
#include "tests/testing/queue_story.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/temp_dir.h"
#include "tests/testing/wait_until.h"

namespace nerf {
namespace {

using absl::StatusCode;
using Moment = PostgresProxy::Moment;

class PostgresStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    if (PostgresCluster::Get() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed";
    database_ = cluster().NewDatabase();
  }
  static PostgresCluster& cluster() { return *PostgresCluster::Get(); }

  // A session that does not wait long, of a database at a socket's folder.
  absl::StatusOr<std::shared_ptr<PgSession>> OpenAt(const std::string& uri,
                                                    absl::Duration retry_for = absl::Seconds(5)) {
    const PgSessionOptions options = {.uri = uri,
                                      .lock_wait = absl::Milliseconds(100),
                                      .retry_for = retry_for,
                                      .resolve_for = absl::Seconds(10)};
    return PgSession::Open(options, random_);
  }
  absl::StatusOr<std::shared_ptr<PgSession>> Open() { return OpenAt(cluster().Uri(database_)); }

  static StoreWrite NewJob(const std::string& id, uint64_t sequence) {
    StoreWrite write;
    Job job;
    job.key = {"default", id};
    job.create_sequence = sequence;
    write.jobs.push_back({job, std::nullopt});
    return write;
  }
  std::string Sql(const std::string& sql) { return cluster().Sql(database_, sql); }

  FakeRandom random_;
  std::string database_;
};  // namespace

TEST_F(PostgresStoreTest, SecondServerIsRefusedAndToldWhoIsThere) {
  const auto session = Open();
  ASSERT_THAT(session, IsOk());
  const auto second = Open();
  EXPECT_THAT(second, StatusIs(StatusCode::kFailedPrecondition, "in use by nerfd "));
  EXPECT_THAT(second.status().message(), testing::HasSubstr(":" + std::to_string(getpid()) + ":"));
  PostgresStore store(*session);
  EXPECT_THAT(store.Commit(NewJob("one", 1)), IsOk());
}

TEST_F(PostgresStoreTest, SchemaOfANewerProgramIsRefusedUntouched) {
  ASSERT_THAT(Open(), IsOk());
  Sql("UPDATE nerfd.schema_version SET version = 99; DROP TABLE nerfd.tokens");
  const std::string before = cluster().Dump(database_);
  EXPECT_THAT(Open(), StatusIs(StatusCode::kFailedPrecondition, "99"));
  EXPECT_EQ(cluster().Dump(database_), before);
}

TEST_F(PostgresStoreTest, SchemaOfAnOlderProgramIsRefusedUntouched) {
  ASSERT_THAT(Open(), IsOk());
  Sql("UPDATE nerfd.schema_version SET version = 4");
  const std::string before = cluster().Dump(database_);
  EXPECT_THAT(Open(), StatusIs(StatusCode::kFailedPrecondition, "run the one that made it"));
  EXPECT_EQ(cluster().Dump(database_), before);
}

TEST_F(PostgresStoreTest, ForeignSchemaOfTheNameIsRefused) {
  Sql("CREATE SCHEMA nerfd; CREATE TABLE nerfd.schema_version (version bigint)");
  EXPECT_THAT(Open(), FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt));
}

TEST_F(PostgresStoreTest, DatabaseOfAnotherEncodingIsRefused) {
  Sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
  EXPECT_THAT(OpenAt(cluster().Uri("latin")), StatusIs(StatusCode::kFailedPrecondition, "UTF8"));
}

TEST_F(PostgresStoreTest, NoServerIsUnavailable) {
  EXPECT_THAT(OpenAt(PostgresCluster::UriAt("/nonexistent", "x")),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(OpenAt(cluster().Uri("no_such_database")),
              StatusIs(StatusCode::kUnavailable, "no_such_database"));
}

TEST_F(PostgresStoreTest, PasswordInTheUriIsRefusedAndNotRepeated) {
  EXPECT_THAT(CheckPostgresUri("postgresql://nerfd@db.example.com:5432/nerfd?sslmode=require"),
              IsOk());
  EXPECT_THAT(CheckPostgresUri("postgres:///nerfd?host=/run/postgresql"), IsOk());
  for (const char* uri :
       {"postgresql://nerfd:geheim@db/nerfd", "postgresql://db/nerfd?password=geheim",
        "postgresql://db/nerfd?pass%77ord=geheim", "postgresql://db/nerfd?sslpassword=geheim",
        "postgresql://nerfd:ge@heim@db:x/nerfd", "host=db password=geheim", "geheim", "",
        "postgresql://db/nerfd?geheim=1", "mysql://geheim"}) {
    const absl::Status status = CheckPostgresUri(uri);
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument)) << uri;
    EXPECT_THAT(status.message(), testing::Not(testing::HasSubstr("heim"))) << uri;
  }
}

TEST_F(PostgresStoreTest, CommitsWaitForTheDiskWhateverTheServerSays) {
  Sql("ALTER DATABASE " + database_ + " SET synchronous_commit = off");
  const auto session = Open();
  ASSERT_THAT(session, IsOk());
  EXPECT_THAT((*session)->Read([](PgConnection& connection) {
    EXPECT_EQ((*connection.Query("SHOW synchronous_commit"))[0][0], "on");
    return absl::OkStatus();
  }),
              IsOk());
}

TEST_F(PostgresStoreTest, DamagedRowsAreDataLoss) {
  const auto session = Open();
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  ASSERT_THAT(store.Commit(NewJob("one", 1)), IsOk());
  const auto corrupt = FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt);
  Sql("UPDATE nerfd.jobs SET create_sequence = 2");
  EXPECT_THAT(store.Load(), corrupt) << "its seal is of another row";
  Sql("UPDATE nerfd.jobs SET create_sequence = 1");
  EXPECT_THAT(store.Load(), IsOk());
  Sql("UPDATE nerfd.jobs SET state = 'DANCING'");
  EXPECT_THAT(store.Load(), corrupt);
  Sql("DELETE FROM nerfd.jobs; DELETE FROM nerfd.meta WHERE key = 'store_epoch'");
  EXPECT_THAT(store.Load(), corrupt);
}

// The connection is cut at each message of a queue's life in turn. The store connects again, finds
// out what has happened, and nothing of it can be seen.
class CutConnectionTest : public PostgresStoreTest, public testing::WithParamInterface<Moment> {};

TEST_P(CutConnectionTest, EveryCommitHappensOnce) {
  std::string expected, expected_commits;
  int n_cuts = 0;
  for (int nth = 0;; ++nth) {  // 0: nothing is cut
    database_ = cluster().NewDatabase();
    PostgresProxy proxy(cluster().socket());
    const auto session = OpenAt(PostgresCluster::UriAt(proxy.folder(), database_));
    ASSERT_THAT(session, IsOk());
    PostgresStore store(*session);
    QueueHarness harness(&store);
    if (nth > 0) proxy.CutAt(GetParam(), nth);
    for (const StoryStep& step : QueueStory()) {
      ASSERT_THAT(step.call(harness), IsOk()) << "cut " << nth;
    }
    const std::string commits = Sql("SELECT commits FROM nerfd.term");
    QueueHarness reborn(&store);
    EXPECT_EQ(DescribeQueue(reborn), DescribeQueue(harness)) << "cut " << nth;
    if (nth == 0) {
      expected = DescribeQueue(harness);
      expected_commits = commits;
      continue;
    }
    EXPECT_EQ(DescribeQueue(harness), expected) << "cut " << nth;
    EXPECT_EQ(commits, expected_commits) << "cut " << nth;
    if (!proxy.has_cut()) break;
    ++n_cuts;
  }
  EXPECT_GE(n_cuts, 30) << "two messages for each of at least 15 commits";
}

INSTANTIATE_TEST_SUITE_P(Moments, CutConnectionTest,
                         testing::Values(Moment::kBefore, Moment::kAfter), [](const auto& moment) {
                           return moment.param == Moment::kBefore ? "BeforeAMessage"
                                                                  : "BeforeItsAnswer";
                         });

TEST_F(PostgresStoreTest, TokenIsAddedOnceWhenItsAnswerIsLost) {
  for (int nth = 1; nth <= 2; ++nth) {
    PostgresProxy proxy(cluster().socket());
    const auto session = OpenAt(PostgresCluster::UriAt(proxy.folder(), database_));
    ASSERT_THAT(session, IsOk());
    PostgresAccessStore store(*session);
    proxy.CutAt(Moment::kAfter, nth);
    const std::string id = "t-" + std::to_string(nth);
    EXPECT_THAT(store.AddToken({.id = id, .digest = id}), IsOk());
    EXPECT_TRUE(proxy.has_cut());
    EXPECT_THAT(store.AddToken({.id = id, .digest = id}), StatusIs(StatusCode::kAlreadyExists));
    EXPECT_EQ(store.Load()->tokens.size(), static_cast<size_t>(nth));
  }
}

TEST_F(PostgresStoreTest, WithoutPostgresWritesAreRefusedAndThenGoOn) {
  PostgresProxy proxy(cluster().socket());
  const auto session =
      OpenAt(PostgresCluster::UriAt(proxy.folder(), database_), absl::ZeroDuration());
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  ASSERT_THAT(store.Commit(NewJob("one", 1)), IsOk());
  proxy.SetOpen(false);
  const StoreWrite two = NewJob("two", 2), three = NewJob("three", 3);
  const StoreWrite* const writes[] = {&two, &three};
  for (const absl::Status& status : store.CommitAll(writes)) {
    EXPECT_THAT(status, FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  }
  EXPECT_TRUE(store.read_only());
  EXPECT_THAT(store.LoadCurve({"default", "one"}), StatusIs(StatusCode::kUnavailable));
  proxy.SetOpen(true);
  // PostgreSQL may not have ended the session yet that was cut off, and that holds the lock.
  std::vector<absl::Status> statuses;
  WaitUntil(absl::Seconds(20), [&] {
    statuses = store.CommitAll(writes);
    return statuses[0].ok();
  });
  for (const absl::Status& status : statuses) EXPECT_THAT(status, IsOk());
  EXPECT_FALSE(store.read_only());
  EXPECT_EQ(store.Load()->jobs.size(), 3u);
}

TEST_F(PostgresStoreTest, ServerThatWasReplacedStoresNothing) {
  PostgresProxy proxy(cluster().socket());
  const auto first = OpenAt(PostgresCluster::UriAt(proxy.folder(), database_));
  ASSERT_THAT(first, IsOk());
  PostgresStore old_store(*first);
  ASSERT_THAT(old_store.Commit(NewJob("one", 1)), IsOk());
  proxy.SetOpen(false);  // the network of the first one fails, and PostgreSQL notices
  absl::StatusOr<std::shared_ptr<PgSession>> second = absl::UnknownError("");
  for (int i = 0; i < 50 && !second.ok(); ++i) second = Open();
  ASSERT_THAT(second, IsOk());
  PostgresStore new_store(*second);
  ASSERT_THAT(new_store.Commit(NewJob("two", 2)), IsOk());
  proxy.SetOpen(true);
  const absl::Status refused = old_store.Commit(NewJob("three", 3));
  EXPECT_THAT(refused, FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_THAT(refused.message(), testing::HasSubstr("belongs to nerfd "));
  second->reset();
  EXPECT_THAT(old_store.Commit(NewJob("three", 3)), StatusIs(StatusCode::kUnavailable))
      << "for good";
  EXPECT_TRUE(old_store.read_only());
  EXPECT_EQ(new_store.Load()->jobs.size(), 2u);
}

// Replicas of one database.
class ReplicaTermTest : public PostgresStoreTest {
 protected:
  absl::StatusOr<PostgresStores> Lead(const std::string& uri, const std::string& address,
                                      absl::Duration lease = absl::Seconds(60)) {
    return OpenPostgresStores(
        {.uri = uri, .seat = {.lease = lease, .grpc_address = address, .web_address = "w:1"}},
        random_);
  }
  absl::StatusOr<PostgresStores> Lead(const std::string& address,
                                      absl::Duration lease = absl::Seconds(60)) {
    return Lead(cluster().Uri(database_), address, lease);
  }
  std::unique_ptr<LeaderTable> Table() { return *LeaderTable::Open(cluster().Uri(database_)); }
};

TEST_F(ReplicaTermTest, OneLeadsUntilItsLeaseIsOver) {
  const auto table = Table();
  EXPECT_TRUE(table->Read()->is_free) << "a database without tables";
  const auto first = Lead("first:1");
  ASSERT_THAT(first, IsOk());
  EXPECT_EQ(first->term, 1u);
  const auto row = table->Read();
  ASSERT_THAT(row, IsOk());
  EXPECT_EQ(row->term, 1u);
  EXPECT_EQ(row->grpc_address, "first:1");
  EXPECT_EQ(row->web_address, "w:1");
  EXPECT_FALSE(row->is_free);
  EXPECT_THAT(Lead("second:1"), StatusIs(StatusCode::kFailedPrecondition, "in use by"));
  EXPECT_THAT(Open(), StatusIs(StatusCode::kFailedPrecondition, "in use by")) << "one alone, too";
  EXPECT_THAT(table->Renew(1, absl::Seconds(60)), IsOkAndHolds(true));
  EXPECT_THAT(table->Renew(2, absl::Seconds(60)), IsOkAndHolds(false));
  EXPECT_THAT(table->Resign(2), IsOk());
  EXPECT_FALSE(table->Read()->is_free) << "of another term";
  EXPECT_THAT(table->Resign(1), IsOk());
  EXPECT_TRUE(table->Read()->is_free);
  const auto second = Lead("second:1");
  ASSERT_THAT(second, IsOk());
  EXPECT_EQ(second->term, 2u);
  EXPECT_EQ(table->Read()->grpc_address, "second:1");
  EXPECT_THAT(table->Renew(1, absl::Seconds(60)), IsOkAndHolds(false));
}

TEST_F(ReplicaTermTest, LeaseIsKeptWhileTheLockIsFree) {
  {
    const auto first = Lead("first:1");
    ASSERT_THAT(first, IsOk());
  }  // its connections are gone, as those of a leader that was killed, or is cut off for a moment
  EXPECT_THAT(Lead("second:1"), StatusIs(StatusCode::kFailedPrecondition, "in use by"));
  EXPECT_THAT(Open(), StatusIs(StatusCode::kFailedPrecondition, "in use by"));
  EXPECT_THAT(Table()->Resign(1), IsOk());
  EXPECT_THAT(Lead("second:1"), IsOk());
}

// The lease is renewed while another replica has seen that it is over and begins its term.
TEST_F(ReplicaTermTest, RenewalAtTheLastMomentKeepsTheLease) {
  {
    ASSERT_THAT(Lead("first:1", absl::Milliseconds(1)), IsOk());
    absl::SleepFor(absl::Milliseconds(2));
  }
  const auto renewal = PgConnection::Open(cluster().Uri(database_), "renewal");
  ASSERT_THAT(renewal, IsOk());
  ASSERT_THAT((*renewal)->Exec("BEGIN"), IsOk());
  ASSERT_THAT((*renewal)->Exec("UPDATE leader SET expires = clock_timestamp() + '60 s'"), IsOk());
  absl::Status status;
  std::thread second([&] { status = Lead("second:1").status(); });
  EXPECT_TRUE(WaitUntil(absl::Seconds(20), [&] {
    return Sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'") ==
           "1\n";
  }));
  ASSERT_THAT((*renewal)->Exec("COMMIT"), IsOk());
  second.join();
  EXPECT_THAT(status, StatusIs(StatusCode::kFailedPrecondition, "in use by"));
  EXPECT_EQ(Table()->Read()->grpc_address, "first:1");
  EXPECT_EQ(Sql("SELECT number FROM nerfd.term"), "1\n");
}

// The leader is stopped with its lock and its connections, as by SIGSTOP. Every way to write is
// refused once another one leads, and nothing of it is stored.
TEST_F(ReplicaTermTest, EveryWriteOfAStaleLeaderIsRefused) {
  const auto row = FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly);
  const auto lease = absl::Milliseconds(1);
  const StoreWrite one = NewJob("one", 1), two = NewJob("two", 2), three = NewJob("three", 3);
  const StoreWrite* const both[] = {&two, &three};
  using Write = std::function<absl::Status(PostgresStores&)>;
  const std::vector<std::pair<const char*, Write>> writes = {
      {"Commit", [&](PostgresStores& s) { return s.jobs->Commit(two); }},
      {"CommitAll", [&](PostgresStores& s) { return s.jobs->CommitAll(both)[1]; }},
      {"AddToken",
       [&](PostgresStores& s) { return s.access->AddToken({.id = "t", .digest = "t"}); }},
      {"DeleteToken", [&](PostgresStores& s) { return s.access->DeleteToken("kept"); }},
      {"PutWorkerKey",
       [&](PostgresStores& s) {
         return s.access->PutWorkerKey({"w", "k"});
       }},
      {"DeleteWorkerKey", [&](PostgresStores& s) { return s.access->DeleteWorkerKey("kept"); }}};
  for (const auto& [name, write] : writes) {
    database_ = cluster().NewDatabase();
    auto stale = Lead("stale:1", lease);
    ASSERT_THAT(stale, IsOk());
    ASSERT_THAT(stale->jobs->Commit(one), IsOk());
    ASSERT_THAT(stale->access->AddToken({.id = "kept", .digest = "kept"}), IsOk());
    ASSERT_THAT(stale->access->PutWorkerKey({"kept", "kept"}), IsOk());
    absl::SleepFor(lease);
    const auto leader = Lead("leader:1");
    ASSERT_THAT(leader, IsOk()) << name;
    const std::string before = cluster().Dump(database_);
    EXPECT_FALSE(stale->is_broken());
    EXPECT_THAT(write(*stale), row) << name;
    EXPECT_TRUE(stale->is_broken()) << name;
    EXPECT_THAT(write(*stale), row) << name << ", for good";
    EXPECT_EQ(cluster().Dump(database_), before) << name;
    EXPECT_THAT(write(const_cast<PostgresStores&>(*leader)), IsOk()) << name;
  }
}

// The transaction of the stale leader has written its rows when the other one takes over.
TEST_F(ReplicaTermTest, TransactionInProgressIsEndedByTheNextTerm) {
  const PgSessionOptions options = {.uri = cluster().Uri(database_),
                                    .seat = {.lease = absl::Milliseconds(1)},
                                    .retry_for = absl::ZeroDuration()};
  const auto stale = PgSession::Open(options, random_);
  ASSERT_THAT(stale, IsOk());
  const absl::Status status = (*stale)->TransactOnce([&](PgConnection& connection) {
    EXPECT_THAT(connection.Exec("INSERT INTO drained_workers VALUES ('w')"), IsOk());
    EXPECT_THAT(Lead("leader:1"), IsOk());
    return absl::OkStatus();
  });
  EXPECT_THAT(status, StatusIs(StatusCode::kUnavailable));
  EXPECT_EQ(Sql("SELECT count(*) FROM nerfd.drained_workers"), "0\n");
}

TEST_F(ReplicaTermTest, LockOfAnotherProgramIsNotTakenAway) {
  const auto alone = Open();
  ASSERT_THAT(alone, IsOk());
  EXPECT_TRUE(Table()->Read()->is_free);
  EXPECT_THAT(Lead("replica:1"), StatusIs(StatusCode::kFailedPrecondition, "in use by nerfd "));
  PostgresStore store(*alone);
  EXPECT_THAT(store.Commit(NewJob("one", 1)), IsOk());
}

TEST_F(PostgresStoreTest, CommitsThatPostgresHasLostAreDataLoss) {
  PostgresProxy proxy(cluster().socket());
  const auto session = OpenAt(PostgresCluster::UriAt(proxy.folder(), database_));
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  ASSERT_THAT(store.Commit(NewJob("one", 1)), IsOk());
  Sql("UPDATE nerfd.term SET commits = commits - 1");  // as a standby without the last commit
  proxy.SetOpen(false);
  proxy.SetOpen(true);
  const auto lost = FailsWith(StatusCode::kDataLoss, reason::kStoreCorrupt);
  EXPECT_THAT(store.Commit(NewJob("two", 2)), lost);
  Sql("UPDATE nerfd.term SET commits = commits + 1");
  EXPECT_THAT(store.Commit(NewJob("two", 2)), lost) << "until a restart";
}

// A restored dump beside the data folder that has gone on.
TEST_F(PostgresStoreTest, MissingCommitsAreDataLossUntilTheyAreAccepted) {
  const TempDir dir;
  PostgresOptions options = {.uri = cluster().Uri(database_), .commits_file = dir / "commits"};
  std::string epoch, secret;
  {
    const auto stores = OpenPostgresStores(options, random_);
    ASSERT_THAT(stores, IsOk());
    for (uint64_t i = 1; i <= 3; ++i) {
      ASSERT_THAT(stores->jobs->Commit(NewJob("job-" + std::to_string(i), i)), IsOk());
    }
    epoch = stores->jobs->Load()->store_epoch;
    secret = stores->jobs->Load()->token_secret;
  }
  ASSERT_THAT(OpenPostgresStores(options, random_), IsOk());
  Sql("DELETE FROM nerfd.jobs WHERE create_sequence > 1; UPDATE nerfd.term SET commits = 1");
  EXPECT_THAT(OpenPostgresStores(options, random_),
              StatusIs(StatusCode::kDataLoss, "2 of 3 acknowledged commits"));
  options.accept_data_loss = true;
  {
    const auto stores = OpenPostgresStores(options, random_);
    ASSERT_THAT(stores, IsOk());
    EXPECT_EQ(stores->jobs->Load()->jobs.size(), 1u);
    EXPECT_NE(stores->jobs->Load()->store_epoch, epoch) << "tokens of what is lost must not fit";
    EXPECT_NE(stores->jobs->Load()->token_secret, secret);
  }
  options.accept_data_loss = false;
  EXPECT_THAT(OpenPostgresStores(options, random_), IsOk()) << "accepted once and for all";
  options.uri = cluster().Uri(cluster().NewDatabase());
  EXPECT_THAT(OpenPostgresStores(options, random_),
              StatusIs(StatusCode::kDataLoss, "another store"));
}

TEST_F(PostgresStoreTest, FullDiskRefusesWritesWithTheReason) {
  const auto session = OpenAt(cluster().Uri(database_), absl::ZeroDuration());
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  Sql("CREATE FUNCTION nerfd.full() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END$$;"
      "CREATE TRIGGER full_disk BEFORE INSERT ON nerfd.jobs FOR EACH ROW "
      "EXECUTE FUNCTION nerfd.full()");
  EXPECT_THAT(store.Commit(NewJob("one", 1)),
              FailsWith(StatusCode::kUnavailable, reason::kStoreReadOnly));
  EXPECT_TRUE(store.read_only());
  StoreWrite age;
  age.age = absl::FromUnixSeconds(5);
  EXPECT_THAT(store.Commit(age), IsOk());
  EXPECT_FALSE(store.read_only());
  Sql("DROP TRIGGER full_disk ON nerfd.jobs");
  EXPECT_THAT(store.Commit(NewJob("one", 1)), IsOk());
}

// A commit that the server refuses at its end, as a deferred constraint does.
TEST_F(PostgresStoreTest, CommitThatFailsAtItsEndHasNotHappened) {
  const auto session = OpenAt(cluster().Uri(database_), absl::ZeroDuration());
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  Sql("CREATE FUNCTION nerfd.fail() RETURNS trigger LANGUAGE plpgsql AS "
      "$$BEGIN RAISE EXCEPTION 'not today'; END$$;"
      "CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON nerfd.jobs DEFERRABLE INITIALLY "
      "DEFERRED FOR EACH ROW EXECUTE FUNCTION nerfd.fail()");
  EXPECT_THAT(store.Commit(NewJob("one", 1)), StatusIs(StatusCode::kUnavailable, "not today"));
  EXPECT_TRUE(store.Load()->jobs.empty());
  Sql("DROP TRIGGER at_the_end ON nerfd.jobs");
  EXPECT_THAT(store.Commit(NewJob("one", 1)), IsOk());
}

// PostgreSQL crashes again and again under load.
TEST_F(PostgresStoreTest, RestartsLoseAndDoubleNothing) {
  const auto session = OpenAt(cluster().Uri(database_), absl::Seconds(30));
  ASSERT_THAT(session, IsOk());
  PostgresStore store(*session);
  Sql("CHECKPOINT");  // so that no recovery replays the databases of the tests before
  std::atomic<bool> stopping = false;
  uint64_t n_committed = 0;
  std::thread writer([&] {
    while (!stopping) {
      const uint64_t n = n_committed + 1;
      ASSERT_THAT(store.Commit(NewJob("job-" + std::to_string(n), n)), IsOk());
      ++n_committed;
    }
  });
  for (const int signal_number : {SIGQUIT, SIGINT, SIGQUIT, SIGQUIT, SIGINT}) {
    absl::SleepFor(absl::Milliseconds(150));
    cluster().Stop(signal_number);
    EXPECT_TRUE(cluster().Start());
  }
  absl::SleepFor(absl::Milliseconds(150));
  stopping = true;
  writer.join();
  EXPECT_GT(n_committed, 20u);
  EXPECT_EQ(store.Load()->jobs.size(), n_committed);
  EXPECT_EQ(Sql("SELECT commits FROM nerfd.term"), std::to_string(n_committed) + "\n");
}

}  // namespace
}  // namespace nerf
