//! An endpoint that gives out credentials like that of a container
//! (`AWS_CONTAINER_CREDENTIALS_FULL_URI`). A test sets what it answers and how it fails.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use s3s::dto::{Timestamp, TimestampFormat};

use crate::http::{Reader, RequestHead};

/// A client that sends no complete request within this time is disconnected.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// What the endpoint answers. A test can change it while the endpoint runs.
#[derive(Debug, Clone)]
pub struct Answers {
    /// `AccessKeyId`.
    pub access_key: String,
    /// `SecretAccessKey`.
    pub secret_key: String,
    /// `Token`. `None`: the answer has no such key.
    pub session_token: Option<String>,
    /// The time from the answer until `Expiration`.
    pub lifetime: Duration,
    /// The header `Authorization` that is required; any other is answered with 401. `None`: any
    /// header is accepted.
    pub authorization: Option<String>,
    /// How the endpoint fails. `None`: it does not.
    pub failure: Option<Failure>,
}

/// How the endpoint fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It answers with this status.
    Status(u16),
    /// It answers with 200 and a JSON document that is cut short.
    Malformed,
    /// It answers with 200 and JSON in which a key is missing.
    Incomplete,
    /// It closes the connection without an answer.
    Nothing,
}

impl Answers {
    /// These keys without a session token, valid for an hour, for any client.
    pub fn of(access_key: &str, secret_key: &str) -> Self {
        Self {
            access_key: access_key.to_owned(),
            secret_key: secret_key.to_owned(),
            session_token: None,
            lifetime: Duration::from_secs(3600),
            authorization: None,
            failure: None,
        }
    }
}

/// A running endpoint. It ends when this is dropped.
pub struct Credentials {
    address: SocketAddr,
    state: Arc<Mutex<EndpointState>>,
    thread: Option<JoinHandle<()>>,
}

struct EndpointState {
    answers: Answers,
    requests: usize,
    stopping: bool,
}

impl Credentials {
    /// Starts an endpoint on a free port of 127.0.0.1.
    ///
    /// # Errors
    /// If it can't bind a port.
    pub fn start(answers: Answers) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(EndpointState { answers, requests: 0, stopping: false }));
        let thread = std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for client in listener.incoming() {
                    if lock(&state).stopping {
                        return;
                    }
                    // The test sees the error of its client; the endpoint need not.
                    let _ = client.and_then(|client| serve(client, &state));
                }
            }
        });
        Ok(Self { address, state, thread: Some(thread) })
    }

    /// The value for `AWS_CONTAINER_CREDENTIALS_FULL_URI`.
    pub fn uri(&self) -> String {
        format!("http://{}/credentials", self.address)
    }

    /// The number of requests so far.
    pub fn requests(&self) -> usize {
        lock(&self.state).requests
    }

    /// Changes the answers from now on.
    pub fn change(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut lock(&self.state).answers);
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        lock(&self.state).stopping = true;
        // The thread checks `stopping` after each connection, so this one wakes it.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<EndpointState>) -> MutexGuard<'_, EndpointState> {
    state.lock().expect("nothing panics while it is locked")
}

/// Answers one request, and closes the connection.
fn serve(client: TcpStream, state: &Mutex<EndpointState>) -> io::Result<()> {
    client.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut client = Reader::new(Arc::new(client), 16 << 10);
    let Some(request) = client.request()? else { return Ok(()) };
    let answers = {
        let mut state = lock(state);
        state.requests += 1;
        state.answers.clone()
    };
    let Some((status, body)) = answer(&answers, &request) else { return Ok(()) };
    let head = format!(
        "HTTP/1.1 {status} Said\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    client.stream().write_all((head + &body).as_bytes())
}

fn answer(answers: &Answers, request: &RequestHead) -> Option<(u16, String)> {
    if answers
        .authorization
        .as_deref()
        .is_some_and(|must| request.header("authorization") != Some(must))
    {
        return Some((
            401,
            r#"{"code":"Unauthorized","message":"another token, please"}"#.to_owned(),
        ));
    }
    match answers.failure {
        None => Some((200, json(answers))),
        Some(Failure::Status(status)) => {
            Some((status, r#"{"code":"Failure","message":"as the test said"}"#.to_owned()))
        }
        Some(Failure::Malformed) => Some((200, json(answers).split_at(20).0.to_owned())),
        Some(Failure::Incomplete) => Some((200, json(answers).replace("SecretAccessKey", "Other"))),
        Some(Failure::Nothing) => None,
    }
}

fn json(answers: &Answers) -> String {
    let mut expires = Vec::new();
    Timestamp::from(SystemTime::now() + answers.lifetime)
        .format(TimestampFormat::DateTime, &mut expires)
        .expect("memory can be written to");
    let expires = String::from_utf8(expires).expect("a date is ASCII");
    let token = answers
        .session_token
        .as_ref()
        .map_or(String::new(), |token| format!(r#","Token":"{token}""#));
    let Answers { access_key, secret_key, .. } = answers;
    format!(
        r#"{{"AccessKeyId":"{access_key}","SecretAccessKey":"{secret_key}"{token},"Expiration":"{expires}"}}"#
    )
}
