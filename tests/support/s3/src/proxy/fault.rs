//! The kinds of faults, and the plan that says when they happen.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::proxy::Request;

/// The kinds of faults, for plans and for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Answers 503 `SlowDown`, without asking the server.
    SlowDown,
    /// Answers 500 `InternalError`, without asking the server.
    InternalError,
    /// Answers another error, which a script gives. See [`Fault::error()`].
    Error,
    /// Resets the connection before the answer.
    ResetBefore,
    /// Resets the connection within the body.
    ResetWithin,
    /// Closes the connection in good order within the body.
    Truncate,
    /// Sends nothing for a while within the body, then goes on.
    Stall,
    /// Sends nothing for a while within the body, then closes the connection in good order.
    StallAndEnd,
    /// Begins the answer late.
    SlowStart,
}

impl Kind {
    /// The kinds that a plan can choose from: all but [`Kind::Error`].
    pub const ALL: [Self; 8] = [
        Self::SlowDown,
        Self::InternalError,
        Self::ResetBefore,
        Self::ResetWithin,
        Self::Truncate,
        Self::Stall,
        Self::StallAndEnd,
        Self::SlowStart,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SlowDown => "slow-down",
            Self::InternalError => "internal-error",
            Self::Error => "error",
            Self::ResetBefore => "reset-before",
            Self::ResetWithin => "reset-within",
            Self::Truncate => "truncate",
            Self::Stall => "stall",
            Self::StallAndEnd => "stall-and-end",
            Self::SlowStart => "slow-start",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{name:?} is no fault. There are: {names}")
        })
    }
}

/// One fault. Values that are not set come from the plan, or are random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The kind of the fault.
    pub kind: Kind,
    /// For a fault within a body: its offset in the body, in bytes. Beyond the end of the body, or
    /// without a body, nothing happens.
    pub at: Option<u64>,
    /// For stalls and slow starts: their duration.
    pub hold: Option<Duration>,
    /// For [`Kind::Error`]: the HTTP status and S3's error code.
    pub error: (u16, String),
}

impl From<Kind> for Fault {
    fn from(kind: Kind) -> Self {
        let error = match kind {
            Kind::SlowDown => (503, "SlowDown".to_owned()),
            _ => (500, "InternalError".to_owned()),
        };
        Self { kind, at: None, hold: None, error }
    }
}

impl Fault {
    /// An answer with a status and one of S3's error codes, such as 403 and `AccessDenied`. The
    /// server gets no request.
    pub fn error(status: u16, code: &str) -> Self {
        Self { error: (status, code.to_owned()), ..Self::from(Kind::Error) }
    }

    /// The fault at this offset in the body, in bytes.
    #[must_use]
    pub fn at(self, byte: u64) -> Self {
        Self { at: Some(byte), ..self }
    }

    /// The fault with this duration.
    #[must_use]
    pub fn hold(self, time: Duration) -> Self {
        Self { hold: Some(time), ..self }
    }

    /// Whether the fault is an answer, so that the server gets no request.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.kind, Kind::SlowDown | Kind::InternalError | Kind::Error)
    }

    /// Whether the fault happens within a body.
    pub(crate) fn is_within(&self) -> bool {
        use Kind::{ResetWithin, Stall, StallAndEnd, Truncate};
        matches!(self.kind, ResetWithin | Truncate | Stall | StallAndEnd)
    }
}

type Matches = Box<dyn Fn(&Request) -> bool + Send + Sync>;
type Hook = Box<dyn Fn(&Request) -> Option<Fault> + Send + Sync>;
pub(crate) type EditHead = Box<dyn Fn(&Request, String) -> String + Send + Sync>;

/// A fault for some of the requests that match. A test's script consists of rules.
pub struct Rule {
    pub(crate) matches: Matches,
    /// The first of the matching requests that gets the fault, counted from 0.
    pub(crate) from: u64,
    /// How many matching requests get the fault.
    pub(crate) count: u64,
    pub(crate) fault: Fault,
}

impl Rule {
    /// The `n`-th request (counted from 0) for which `matches` is true gets this fault.
    pub fn nth(
        n: u64,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: impl Into<Fault>,
    ) -> Self {
        Self { matches: Box::new(matches), from: n, count: 1, fault: fault.into() }
    }

    /// Like [`nth`](Self::nth), for requests whose unchanged path and query contain `part`.
    pub fn nth_of(n: u64, part: &str, fault: impl Into<Fault>) -> Self {
        let part = part.to_owned();
        Self::nth(n, move |request| request.target.contains(&part), fault)
    }

    /// The rule for `count` requests in a row instead of one.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

/// What a proxy does to requests. The default passes them on unchanged.
pub struct Plan {
    /// Chooses which requests get a fault, which fault, and at which offset in the body. The choice
    /// depends on the seed, on the request's method, target and range, and on how often the same
    /// request came before. It does not depend on the order of different requests.
    pub seed: u64,
    /// The probability of a fault for each request, from 0 to 1.
    pub probability: f64,
    /// The kinds to choose from, all with the same probability.
    pub kinds: Vec<Kind>,
    /// The shortest time from a request to the beginning of its answer.
    pub latency: Duration,
    /// The maximal rate of bodies on each connection, in bytes per second.
    pub throttle: Option<u64>,
    /// The duration of a stall or a slow start.
    pub hold: Duration,
    /// Rules that override random faults. The first rule that applies decides.
    pub script: Vec<Rule>,
    /// A function that overrides the script. It runs before the server gets the request, so it may
    /// also act, for example replace the object.
    pub hook: Option<Hook>,
    /// Makes another head of that of each request, for the server.
    pub edit_request: Option<EditHead>,
    /// Makes another head of that of each answer, for the client. It can't change the body's length.
    pub edit_answer: Option<EditHead>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seed: 0,
            probability: 0.0,
            kinds: Kind::ALL.to_vec(),
            latency: Duration::ZERO,
            throttle: None,
            hold: Duration::from_millis(500),
            script: Vec::new(),
            hook: None,
            edit_request: None,
            edit_answer: None,
        }
    }
}

impl Plan {
    /// A plan of random faults.
    pub fn random(seed: u64, probability: f64, kinds: &[Kind]) -> Self {
        Self { seed, probability, kinds: kinds.to_vec(), ..Self::default() }
    }

    /// A plan of faults by a script.
    pub fn script(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { script: rules.into_iter().collect(), ..Self::default() }
    }

    /// The plan with a function that makes another head of that of each request.
    #[must_use]
    pub fn edit_request(
        self,
        edit: impl Fn(&Request, String) -> String + Send + Sync + 'static,
    ) -> Self {
        Self { edit_request: Some(Box::new(edit)), ..self }
    }

    /// The plan with a function that makes another head of that of each answer.
    #[must_use]
    pub fn edit_answer(
        self,
        edit: impl Fn(&Request, String) -> String + Send + Sync + 'static,
    ) -> Self {
        Self { edit_answer: Some(Box::new(edit)), ..self }
    }

    /// The plan with a function that is called for each request.
    #[must_use]
    pub fn hook(self, hook: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self { hook: Some(Box::new(hook)), ..self }
    }
}
