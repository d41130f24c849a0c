//! Planning: which rows of a bound query are read how, in which order tables are joined, and what is done with the rows.
//!
//! The planner takes what the binder gives it ([`BoundSelect`], [`BoundTargets`]) and builds plans of the executor, on
//! which it rests; it knows neither the binder nor a parser. It chooses how each table is reached (a point, ranges of a
//! key, or all of it), the order and kind of joins, and whether a key's order spares a sort. The binder asks it for the
//! plan of each query as soon as that is bound, since an expression holds the plans of its subqueries.
//!
//! Where tables were analyzed, choices go by the costs that [`estimate`](crate::executor::estimate) tells; where not, by
//! keys and the shape of the query alone.

mod access;
mod conditions;
mod costed;
mod from;
mod input;
mod members;
mod order;
mod prune;
mod reduce;
mod select;
mod targets;
mod window;

pub use input::{
    BoundSelect, FromItem, FromKind, Grouping, JoinTree, Limits, Numbers, OutputOrder, SetOperator,
};
pub use members::{hash_sides, hashed_alike};
pub use prune::prune;
pub use select::{finish_query, plan_select, plan_set_operation, row_with_sets};
pub use targets::{BoundTargets, plan_targets};
