#include "server/main/server_options.h"

#include <CLI/CLI.hpp>
#include <string>

namespace nerf {
namespace {

void AddDuration(CLI::App& app, const char* flag, const char* environment, const char* help,
                 absl::Duration* value) {
  app.add_option_function<std::string>(
         flag,
         [flag, value](const std::string& text) {
           if (absl::ParseDuration(text, value)) return;
           throw CLI::ValidationError(flag,
                                      "'" + text + "' is not a duration such as 30s or 1m30s");
         },
         help)
      ->envname(environment)
      ->default_str(absl::FormatDuration(*value));
}

void AddListenOptions(CLI::App& app, ServerFlags* flags) {
  app.add_option("--listen", flags->listen, "Address of the gRPC server, HOST:PORT; port 0: any")
      ->envname("NERFD_LISTEN")
      ->capture_default_str();
  app.add_option("--metrics-listen", flags->metrics_listen, "Address of /metrics, HOST:PORT")
      ->envname("NERFD_METRICS_LISTEN")
      ->capture_default_str();
  app.add_option("--web-listen", flags->web_listen,
                 "Address of the web page and of calls from browsers, HOST:PORT; '' or none: none")
      ->envname("NERFD_WEB_LISTEN")
      ->capture_default_str();
  app.add_option("--web-origin", flags->web_origins,
                 "Other site whose pages may call, such as https://nerf.example.com; its host is "
                 "also accepted as a name of this server. May be repeated; links of shares begin "
                 "with the first")
      ->envname("NERFD_WEB_ORIGIN")
      ->take_all()
      ->delimiter(',');
  app.add_option("--health-listen", flags->health_listen,
                 "Address of grpc.health.v1 alone, for probes, HOST:PORT; empty: none")
      ->envname("NERFD_HEALTH_LISTEN");
}

void AddStoreOptions(CLI::App& app, ServerFlags* flags) {
  app.add_option("--data-dir", flags->data_dir, "Folder of the queue, the blobs and the token")
      ->envname("NERFD_DATA_DIR")
      ->capture_default_str();
  app.add_option("--store", flags->store,
                 "PostgreSQL database for queue and tokens, postgresql://USER@HOST/DATABASE; "
                 "default: files of the data folder")
      ->envname("NERFD_STORE")
      ->type_name("URI");
  app.add_option("--replica-host", flags->replica_host,
                 "Serve --store and --blobs together with other nerfd, which reach this one at the "
                 "ports of --listen and --web-listen of this name or address")
      ->envname("NERFD_REPLICA_HOST")
      ->type_name("HOST");
  app.add_option("--move-store", flags->move_store,
                 "Move queue.db and access.db of the data folder into this empty database, and end")
      ->type_name("URI");
  app.add_option("--blobs", flags->blobs,
                 "Keep blobs in this S3 bucket, s3://BUCKET/PREFIX, with the keys "
                 "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; those of the data folder move "
                 "there meanwhile. Default: in the data folder")
      ->envname("NERFD_BLOBS");
  app.add_option("--s3-endpoint", flags->s3_endpoint,
                 "The S3 server, https://HOST:PORT; default: Amazon's of AWS_REGION")
      ->envname("NERFD_S3_ENDPOINT");
  app.add_flag(
         "--signed-urls", flags->signed_urls,
         "Workers and clients read blobs of --blobs, and workers write them, by URLs of the S3 "
         "server, which they have to reach; what fails goes through nerfd")
      ->envname("NERFD_SIGNED_URLS");
}

void AddAccessOptions(CLI::App& app, ServerFlags* flags) {
  app.add_option("--worker-token-file", flags->worker_token_file,
                 "File with the token of workers; default: worker.token in the data folder")
      ->envname("NERFD_WORKER_TOKEN_FILE");
  app.add_option("--admin-token-file", flags->admin_token_file,
                 "File with the admin's first token; default: admin.token in the data folder")
      ->envname("NERFD_ADMIN_TOKEN_FILE");
  app.add_option("--tls-cert", flags->tls.cert,
                 "Serve gRPC and the page by TLS with this certificate and its chain, in PEM")
      ->envname("NERFD_TLS_CERT");
  app.add_option("--tls-key", flags->tls.key, "Key of that certificate, in PEM")
      ->envname("NERFD_TLS_KEY");
  app.add_option("--client-ca", flags->tls.ca,
                 "CA, in PEM, whose certificate every client has to show")
      ->envname("NERFD_CLIENT_CA");
  app.add_option(
         "--jwks", flags->jwks,
         "Take JSON Web Tokens (RS256, ES256) that are signed by a key of this set (a file)")
      ->envname("NERFD_JWKS");
  app.add_option("--jwt-issuer", flags->jwt_issuer, "The issuer that they have to name")
      ->envname("NERFD_JWT_ISSUER");
  app.add_option("--jwt-audience", flags->jwt_audience, "The audience that they have to name")
      ->envname("NERFD_JWT_AUDIENCE")
      ->capture_default_str();
}

}  // namespace

void AddServerOptions(CLI::App& app, ServerFlags* flags) {
  app.option_defaults()->take_last();  // so that arguments override those of a shell alias
  AddListenOptions(app, flags);
  AddStoreOptions(app, flags);
  AddAccessOptions(app, flags);
  app.add_option("--max-connections", flags->max_connections,
                 "Most connections to gRPC; fewer where the limit of descriptors is lower")
      ->envname("NERFD_MAX_CONNECTIONS")
      ->check(CLI::Range(16, 1'000'000))
      ->capture_default_str();
  app.add_flag("--no-local-worker", flags->no_local_worker, "Start no nerf-worker on this machine")
      ->envname("NERFD_NO_LOCAL_WORKER");
  AddDuration(app, "--lease-ttl", "NERFD_LEASE_TTL",
              "Time without a message after which a worker is lost", &flags->lease_ttl);
  AddDuration(app, "--checkpoint-interval", "NERFD_CHECKPOINT_INTERVAL",
              "Time between checkpoints of a job", &flags->checkpoint_interval);
  app.add_flag("--accept-data-loss", flags->accept_data_loss,
               "Start with what is left of a damaged or lost queue.db, or of a backup")
      ->envname("NERFD_ACCEPT_DATA_LOSS");
  app.add_option("--restore", flags->restore,
                 "Fill an empty data folder from this backup, with a new store epoch, and serve it")
      ->type_name("DIR");
  app.add_option("--check-backup", flags->check_backup,
                 "Read this backup as a restore would, compare each blob with its digest, and end")
      ->type_name("DIR");
  app.add_flag("--list-backups", flags->list_backups,
               "List the backups in the data folder, and end");
  AddDuration(app, "--scrub-interval", "NERFD_SCRUB_INTERVAL",
              "Time between two readings of all blobs, to find damaged ones; 0: never",
              &flags->scrub_interval);
  AddDuration(app, "--shutdown-delay", "NERFD_SHUTDOWN_DELAY",
              "Time to keep serving after SIGTERM, while health reports NOT_SERVING",
              &flags->shutdown_delay);
  app.add_flag("--insecure", flags->insecure, "Allow listening beyond this machine without TLS")
      ->envname("NERFD_INSECURE");
  app.add_option("--log-level", flags->log_level, "debug, info, warning, error or off")
      ->envname("NERFD_LOG_LEVEL")
      ->capture_default_str();
  app.add_option("--log-format", flags->log_format, "text, or json: one object per line")
      ->envname("NERFD_LOG_FORMAT")
      ->capture_default_str();
}

}  // namespace nerf
