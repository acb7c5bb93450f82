//! Ranged GETs over several connections at once, whose bytes are discarded: the maximal rate of a
//! server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use pipemill_source::s3::DEFAULT_PART_SIZE;

/// Seconds for fetching all of these objects over `connections` connections, in parts of the
/// source's size.
pub fn all(
    endpoint: &str,
    bucket: &str,
    keys: &[(String, u64)],
    connections: usize,
) -> Result<f64> {
    let host = endpoint.trim_start_matches("http://");
    let mut parts = Vec::new();
    for (key, size) in keys {
        let mut from = 0;
        while from < *size {
            let end = (from + DEFAULT_PART_SIZE).min(*size);
            let head = format!(
                "GET /{bucket}/{key} HTTP/1.1\r\nHost: {host}\r\nRange: bytes={from}-{}\r\n\r\n",
                end - 1
            );
            parts.push((head, end - from));
            from = end;
        }
    }
    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let connect = |_| scope.spawn(|| one(host, &parts, &next));
        let threads: Vec<_> = (0..connections).map(connect).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().ok().context("a reader panicked")?)
    })?;
    Ok(began.elapsed().as_secs_f64())
}

fn one(host: &str, parts: &[(String, u64)], next: &AtomicUsize) -> Result<()> {
    let mut stream = TcpStream::connect(host)?;
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 256 << 10];
    while let Some((head, size)) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
        stream.write_all(head.as_bytes())?;
        let mut come = 0;
        // The head of the response, and perhaps the first bytes of its body.
        let body = loop {
            come += stream.read(&mut buffer[come..])?;
            if let Some(end) = buffer[..come].windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break end + 4;
            }
            ensure!(come > 0 && come < buffer.len(), "no answer");
        };
        ensure!(buffer.starts_with(b"HTTP/1.1 20"), "{}", String::from_utf8_lossy(&buffer[..come]));
        let mut left = size - (come - body) as u64;
        while left > 0 {
            let count = stream.read(&mut buffer)?;
            ensure!(count > 0, "the body ended early");
            left -= count as u64;
        }
    }
    Ok(())
}
