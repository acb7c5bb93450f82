//! What can go wrong, and what of it is to go wrong when.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::proxy::Request;

/// The kinds of faults, for plans and for counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// 503 `SlowDown`, before the server is asked.
    SlowDown,
    /// 500 `InternalError`, before the server is asked.
    InternalError,
    /// Any other error that a script names.
    Error,
    /// The connection is reset before anything is answered.
    ResetBefore,
    /// The connection is reset within the body.
    ResetWithin,
    /// The connection ends in good order within the body.
    Truncate,
    /// Nothing comes for a while within the body; then it goes on.
    Stall,
    /// Nothing comes for a while within the body; then the connection ends in good order.
    StallAndEnd,
    /// The answer begins late.
    SlowStart,
}

impl Kind {
    /// Those that a plan can choose from.
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

/// One fault. What is not set is as the plan says, or random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What happens.
    pub kind: Kind,
    /// After how many bytes of the body, for what happens within a body. Beyond its end, or where there
    /// is no body, nothing happens.
    pub at: Option<u64>,
    /// For how long, for stalls and slow starts.
    pub hold: Option<Duration>,
    /// Status and code, for [`Kind::Error`].
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
    /// An answer with a status and one of S3's codes, such as 403 and `AccessDenied`. The server is not
    /// asked.
    pub fn error(status: u16, code: &str) -> Self {
        Self { error: (status, code.to_owned()), ..Self::from(Kind::Error) }
    }

    /// After so many bytes of the body.
    #[must_use]
    pub fn at(self, byte: u64) -> Self {
        Self { at: Some(byte), ..self }
    }

    /// For so long.
    #[must_use]
    pub fn hold(self, time: Duration) -> Self {
        Self { hold: Some(time), ..self }
    }

    /// Whether the server is not asked at all.
    pub(crate) fn is_error(&self) -> bool {
        matches!(self.kind, Kind::SlowDown | Kind::InternalError | Kind::Error)
    }

    /// Whether it happens within a body.
    pub(crate) fn is_within(&self) -> bool {
        use Kind::{ResetWithin, Stall, StallAndEnd, Truncate};
        matches!(self.kind, ResetWithin | Truncate | Stall | StallAndEnd)
    }
}

type Matches = Box<dyn Fn(&Request) -> bool + Send + Sync>;
type Hook = Box<dyn Fn(&Request) -> Option<Fault> + Send + Sync>;

/// A fault for some of the requests that match: the script of a test.
pub struct Rule {
    pub(crate) matches: Matches,
    /// Of those that match, the first to suffer, counted from 0.
    pub(crate) from: u64,
    /// How many suffer.
    pub(crate) count: u64,
    pub(crate) fault: Fault,
}

impl Rule {
    /// The `n`-th request (counted from 0) for which `matches` holds gets this fault.
    pub fn nth(
        n: u64,
        matches: impl Fn(&Request) -> bool + Send + Sync + 'static,
        fault: impl Into<Fault>,
    ) -> Self {
        Self { matches: Box::new(matches), from: n, count: 1, fault: fault.into() }
    }

    /// The same for requests whose path and query, as they were sent, contain `part`.
    pub fn nth_of(n: u64, part: &str, fault: impl Into<Fault>) -> Self {
        let part = part.to_owned();
        Self::nth(n, move |request| request.target.contains(&part), fault)
    }

    /// So many in a row instead of one.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

/// What a proxy does to requests. The default does nothing.
pub struct Plan {
    /// Chooses which requests get a fault, which, and where in the body. The choice depends on this, on
    /// the request's method, target and range, and on how often the same was asked before; it does not
    /// depend on the order in which different requests come.
    pub seed: u64,
    /// Of a fault, for each request; 0 to 1.
    pub probability: f64,
    /// The kinds to choose from, each as likely as the others.
    pub kinds: Vec<Kind>,
    /// No answer begins earlier than this after its request came.
    pub latency: Duration,
    /// Bytes a second, of bodies, on each connection.
    pub throttle: Option<u64>,
    /// For how long a stall or a slow start holds.
    pub hold: Duration,
    /// Before chance: the first rule that applies decides.
    pub script: Vec<Rule>,
    /// Before the script. It may also act, such as replace the object, before the server is asked.
    pub hook: Option<Hook>,
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
        }
    }
}

impl Plan {
    /// Faults by chance.
    pub fn random(seed: u64, probability: f64, kinds: &[Kind]) -> Self {
        Self { seed, probability, kinds: kinds.to_vec(), ..Self::default() }
    }

    /// Faults by a script.
    pub fn script(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { script: rules.into_iter().collect(), ..Self::default() }
    }

    /// With this called for each request.
    #[must_use]
    pub fn hook(self, hook: impl Fn(&Request) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Self { hook: Some(Box::new(hook)), ..self }
    }
}
