//! What became of a run: the evidence, and the judgement over it.

mod evidence;
mod judgement;

pub use evidence::gather;
pub use judgement::{Explained, Judgement, Rules, judge};
