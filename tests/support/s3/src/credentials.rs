//! An endpoint that gives out credentials as the one of a container does
//! (`AWS_CONTAINER_CREDENTIALS_FULL_URI`), for as long as a test likes, or fails to.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use s3s::dto::{Timestamp, TimestampFormat};

use crate::http::{Reader, RequestHead};

/// A client that does not go on is left.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the endpoint answers. It can be changed while it runs.
#[derive(Debug, Clone)]
pub struct Answers {
    /// `AccessKeyId`.
    pub access_key: String,
    /// `SecretAccessKey`.
    pub secret_key: String,
    /// `Token`, where there is one.
    pub session_token: Option<String>,
    /// From the answer to `Expiration`.
    pub lifetime: Duration,
    /// What `Authorization` must be; with anything else the answer is 401. None: anything is right.
    pub authorization: Option<String>,
    /// How it fails, if it does.
    pub failure: Option<Failure>,
}

/// How the endpoint fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// With this status.
    Status(u16),
    /// With 200 and half of a JSON.
    Malformed,
    /// With 200 and JSON in which a key is missing.
    Incomplete,
    /// With the end of the connection.
    Nothing,
}

impl Answers {
    /// Keys without a session token, for an hour, to anyone.
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

/// The endpoint, at work until it is dropped.
pub struct Credentials {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

struct State {
    answers: Answers,
    asked: usize,
    stopping: bool,
}

impl Credentials {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// If no port is to be had.
    pub fn start(answers: Answers) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(State { answers, asked: 0, stopping: false }));
        let thread = std::thread::spawn({
            let state = Arc::clone(&state);
            move || {
                for client in listener.incoming() {
                    if lock(&state).stopping {
                        return;
                    }
                    // A client that breaks off is its own affair.
                    let _ = client.and_then(|client| serve(client, &state));
                }
            }
        });
        Ok(Self { address, state, thread: Some(thread) })
    }

    /// What `AWS_CONTAINER_CREDENTIALS_FULL_URI` must be.
    pub fn uri(&self) -> String {
        format!("http://{}/credentials", self.address)
    }

    /// How often it was asked.
    pub fn asked(&self) -> usize {
        lock(&self.state).asked
    }

    /// Changes what it answers from now on.
    pub fn change(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut lock(&self.state).answers);
    }
}

impl Drop for Credentials {
    fn drop(&mut self) {
        lock(&self.state).stopping = true;
        // Any connection lets it look whether it is to stop.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().expect("nothing panics while it is locked")
}

/// One request; the connection ends with the answer.
fn serve(client: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut client = Reader::new(Arc::new(client), 16 << 10);
    let Some(request) = client.request()? else { return Ok(()) };
    let answers = {
        let mut state = lock(state);
        state.asked += 1;
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
