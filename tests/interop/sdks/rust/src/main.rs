//! A peer of the official Rust SDK: `peer client` uses servers, `peer server stdio|http REVISION…` is one,
//! and `peer judge` says which test vectors the SDK's types accept.
#![allow(deprecated)] // Sampling, roots and logging are what is tested.

mod client;
mod judge;
mod server;

use std::error::Error;

// With one thread, notifications are handled in the order in which they arrive: the SDK starts a task for each.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["client"] => client::use_servers().await,
        ["judge"] => judge::judge(),
        ["server", transport, ..] => server::serve(transport, &words[2..]).await,
        _ => Err("usage: peer client | peer judge | peer server stdio|http [REVISION…]".into()),
    }
}
