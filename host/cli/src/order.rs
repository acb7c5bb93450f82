//! Options for the order of objects and for one part of them: for all commands that read objects
//! without a configuration.

use clap::ValueEnum;

use pipemill_source::{Balance, ListPart, Order};

#[derive(clap::Args)]
pub(super) struct OrderArgs {
    /// Shuffle the objects of a folder or prefix, in each epoch differently, with this seed
    #[arg(long, value_name = "SEED", conflicts_with = "config")]
    shuffle: Option<u64>,
    /// Read one part of the objects of a folder or prefix: INDEX/COUNT, the index from 0
    #[arg(long, value_name = "INDEX/COUNT", conflicts_with = "config")]
    part: Option<ListPart>,
    /// What is equal for all parts [default: count]
    #[arg(long, value_enum, requires = "part")]
    balance: Option<BalanceArg>,
}

#[derive(Clone, Copy, ValueEnum)]
enum BalanceArg {
    /// The number of objects
    Count,
    /// The bytes of the objects, as they are stored
    Size,
}

impl OrderArgs {
    /// The order that these options describe.
    pub(super) fn order(&self) -> Order {
        let balance = match self.balance {
            None | Some(BalanceArg::Count) => Balance::Count,
            Some(BalanceArg::Size) => Balance::Size,
        };
        let part = self.part.map(|part| ListPart { balance, ..part });
        Order { shuffle: self.shuffle, part, blocks: None }
    }
}
