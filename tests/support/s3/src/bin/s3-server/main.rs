//! An S3 server over a folder, for tests. The crate `s3s` handles requests, signatures and XML;
//! `store.rs` has the objects. The server ends with the process that started it.

mod listing;
mod store;

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Parser;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tokio::net::TcpListener;

use store::Store;

#[derive(Parser)]
#[command(about = "An S3 server over a folder, whose subfolders are the buckets; for tests")]
struct Arguments {
    /// The access key. Without keys, requests need no signature
    #[arg(long, requires = "secret_key")]
    access_key: Option<String>,
    /// The secret key
    #[arg(long, requires = "access_key")]
    secret_key: Option<String>,
    /// The address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// The port to listen on; 0 takes a free port. The first line of standard output names it
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The folder of the buckets
    folder: PathBuf,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    // The kernel sends SIGTERM when the parent dies; its default action ends the process.
    set_pdeathsig(Signal::SIGTERM)?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut service = S3ServiceBuilder::new(Store::new(arguments.folder)?);
    if let (Some(access), Some(secret)) = (arguments.access_key, arguments.secret_key) {
        service.set_auth(SimpleAuth::from_single(access, secret));
    }
    let service = service.build();
    let listener = TcpListener::bind((arguments.host.as_str(), arguments.port)).await?;
    println!("listening on {}", listener.local_addr()?);
    std::io::stdout().flush()?;
    let server = Builder::new(TokioExecutor::new()).http1_only();
    loop {
        let (client, _) = listener.accept().await?;
        client.set_nodelay(true)?;
        let connection =
            server.serve_connection(TokioIo::new(client), service.clone()).into_owned();
        tokio::spawn(async move {
            // A client may disconnect at any time.
            let _ = connection.await;
        });
    }
}
