//! Keys at the top of the file, in `[s3]` and in `[rank]`.

use super::*;
use crate::key::{Flag, FreeForm, Number, Shape, Table, Unit, free_form};

pub(crate) static SOCKET: FreeForm = free_form(
    "socket",
    "a path of at most 107 bytes",
    "a path that pipemill chooses",
    Shape::Text("^.{1,107}$"),
)
.doc(
    "The Unix socket to which consumers connect. pipemill creates it. A command that pipemill \
     starts finds the path in `PIPEMILL_SOCKET`. The kernel takes no path longer than 107 bytes.",
);

pub(crate) static ALLOW_OTHER_USERS: Flag = Flag {
    name: "allow_other_users",
    doc: "Whether processes of other users may connect. The permissions of the socket's folder \
          must allow it, too.",
};

pub(crate) static MAX_CONNECTIONS: Number<u64> =
    Number::new("max_connections", Unit::Count, (8, 65_536), 1_024).doc(
        "How many consumers and status clients (`pipemill top`) may be connected at once. There \
         may be fewer: each takes up to four of the files that pipemill may open (the hard limit \
         of `ulimit -n`). Where too many connect, those that have said nothing for longest are \
         ended first; a further consumer is refused.",
    );

pub(crate) static CORES: Number<&str> = Number::new(
    "cores",
    Unit::Count,
    (1, 65_536),
    "all that it may use",
)
.doc(
    "How many cores the host counts on, for `workers = \"auto\"`. Set it if several hosts share \
         a machine. It binds no thread to a core. The host never counts on more cores than it may \
         use.",
);

pub(crate) static METRICS: FreeForm = free_form(
    "metrics",
    "an IP address and a port such as 127.0.0.1:9464, or a path with a `/` of at most 107 bytes",
    "not served",
    Shape::Text("[/:]"),
)
.doc(
    "The TCP port or Unix socket on which [metrics and health](operate.md) are served over HTTP. \
     The folder of a Unix socket follows the same rules as that of `socket`. Whoever reaches it \
     can read names of channels and objects, but no records.",
);

pub(crate) static STOP_TIMEOUT: Number<u64> =
    Number::new("stop_timeout", Unit::Time, (0, 24 * HOUR), 110 * SECOND).doc(
        "How long the command of [`pipemill run`](cli.md#pipemill-run) may take to end after a \
         signal, before it is killed. The default is ten seconds less than SageMaker gives a \
         container. Set it lower than your platform's limit (Docker and `docker stop`: 10 s, \
         Kubernetes: 30 s).",
    );

pub(crate) static FAIL_GRACE: Number<u64> =
    Number::new("fail_grace", Unit::Time, (0, 24 * HOUR), 10 * SECOND).doc(
        "How long a run goes on after a channel has failed, so that consumers get the error and \
         the command can end by itself. The time starts again each time a consumer ACKs a batch \
         from before the failure.",
    );

pub(crate) static CHANNEL: FreeForm = free_form(
    "channel",
    "a list of tables, [[channel]]",
    "required, except on SageMaker",
    Shape::Tables(&CHANNEL_TABLE),
)
.doc("The channels, one or more.");

pub(crate) static S3_TABLE_KEY: FreeForm =
    free_form("s3", "a table, [s3]", "its defaults", Shape::Table(&S3_TABLE))
        .doc("Settings that all channels that read from S3 share.");

pub(crate) static BUDGET: Number<&str> = Number::new(
    "budget",
    Unit::Size,
    (8 * MIB, 1024 * GIB),
    "`\"256MiB\"`, or a quarter of the container's memory if that is less",
)
.doc(
    "Limit for the bytes that all channels together have requested and not read yet. Each channel \
     has an equal share, and at least one `part_size`.",
);

pub(crate) static RANK: FreeForm =
    free_form("rank", "a table, [rank]", "from the launcher", Shape::Table(&RANK_TABLE))
        .doc("The number of this machine among several.");

pub(crate) static RANK_NUMBER: Number<&str> =
    Number::new("rank", Unit::Count, (0, 1_000_000), "from the launcher")
        .doc("The number of this machine, from 0.");

pub(crate) static WORLD: Number<&str> =
    Number::new("world", Unit::Count, (1, 1_000_001), "from the launcher")
        .doc("How many machines there are.");

pub(crate) static ROOT_TABLE: Table = Table {
    name: "the top of the file",
    groups: &[&[
        &SOCKET,
        &ALLOW_OTHER_USERS,
        &MAX_CONNECTIONS,
        &CORES,
        &METRICS,
        &STOP_TIMEOUT,
        &FAIL_GRACE,
        &S3_TABLE_KEY,
        &RANK,
        &CHANNEL,
    ]],
};

pub(crate) static RANK_TABLE: Table = Table { name: "[rank]", groups: &[&[&RANK_NUMBER, &WORLD]] };

pub(crate) static S3_TABLE: Table = Table { name: "[s3]", groups: &[&[&BUDGET]] };
