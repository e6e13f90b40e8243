//! An S3 server over a directory, for tests: signatures are checked, and rights differ by bucket.

mod rights;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder as Connections;
use rights::Rights;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;

/// Serve a directory by the S3 protocol; its directories are the buckets.
///
/// The first line on standard output is the address. Only for tests: nothing here protects the
/// host.
#[derive(Parser)]
#[command(name = "wirelane-s3", version, max_term_width = 100)]
struct Cli {
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The key that clients have
    #[arg(long, value_name = "KEY", default_value = "key")]
    key: String,
    /// What they sign with
    #[arg(long, value_name = "SECRET", default_value = "secret")]
    secret: String,
    /// A bucket that nobody may write to
    #[arg(long, value_name = "BUCKET")]
    read_only: Vec<String>,
}

fn main() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(serve(Cli::parse())));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "wirelane-s3: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(cli: Cli) -> io::Result<()> {
    let service = service(&cli)?;
    let listener = TcpListener::bind(cli.listen).await?;
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    let connections = Connections::new(TokioExecutor::new());
    loop {
        let (socket, _) = listener.accept().await?;
        let connection = connections.serve_connection(TokioIo::new(socket), service.clone());
        let connection = connection.into_owned();
        tokio::spawn(async move {
            // A client that goes away is none of our business.
            let _ = connection.await;
        });
    }
}

fn service(cli: &Cli) -> io::Result<S3Service> {
    let files =
        FileSystem::new(&cli.root).map_err(|error| io::Error::other(format!("{error:?}")))?;
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(cli.key.as_str(), cli.secret.as_str()));
    service.set_access(Rights { root: cli.root.clone(), read_only: cli.read_only.clone() });
    Ok(service.build())
}
