//! The rule stores of one network namespace as one model, whichever tool filled them.
//!
//! iptables-legacy, iptables-nft, native nftables and ipset are read by their own tools' output
//! (the system room runs those); the parsers here turn it into [`Ruleset`], and the evaluator
//! walks that as the kernel would. What a parser does not understand is kept as
//! [`Condition::Unknown`] or [`Action::Unknown`] with its text: it is never guessed.

mod action;
mod assemble;
mod condition;
mod hooks;
pub mod ipset;
pub mod iptables;
mod lines;
pub mod nft;
mod owner;
mod set;
mod store;
mod words;

pub use action::{Action, Nat, NatKind, Verdict};
pub use assemble::{Dumps, assemble};
pub use condition::{AddrType, AddrTypeOf, Condition, Field, Op, Test, Value};
pub use hooks::{Called, Callee};
pub use set::{Element, Set, SetId};
pub use store::{
    Backend, Base, Chain, ChainKind, Family, Hook, OwnerName, Policy, Rule, RuleId, Ruleset, Step,
    Table, TableId, Unread,
};
