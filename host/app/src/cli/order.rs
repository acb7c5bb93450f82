//! The options that say in which order objects are read, and which of them: of all commands that list some without a
//! configuration.

use clap::ValueEnum;

use pipemill_source::{Balance, Order, Shard};

#[derive(clap::Args)]
pub(super) struct OrderArgs {
    /// Shuffle the objects of a folder or prefix anew for each epoch, by this seed
    #[arg(long, value_name = "SEED", conflicts_with = "config")]
    shuffle: Option<u64>,
    /// Take one share of the objects of a folder or prefix: INDEX/COUNT, the index from 0
    #[arg(long, value_name = "INDEX/COUNT", conflicts_with = "config")]
    shard: Option<Shard>,
    /// By what shares are equal [default: count]
    #[arg(long, value_enum, requires = "shard")]
    balance: Option<BalanceArg>,
}

#[derive(Clone, Copy, ValueEnum)]
enum BalanceArg {
    /// The number of objects
    Count,
    /// Their bytes, as they are stored
    Size,
}

impl OrderArgs {
    pub(super) fn order(&self) -> Order {
        let balance = match self.balance {
            None | Some(BalanceArg::Count) => Balance::Count,
            Some(BalanceArg::Size) => Balance::Size,
        };
        let shard = self.shard.map(|shard| Shard { balance, ..shard });
        Order { shuffle: self.shuffle, shard }
    }
}
