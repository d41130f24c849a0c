//! Operations bound to their arguments, as a write set has them: applied when the transaction has its place in the
//! order of commits.

use std::borrow::Cow;

use super::{Length, Registered};
use crate::{Error, Result, sync::Arc};

/// The quantity that is the length of a value that operations lengthen.
pub(crate) const LENGTH: u32 = u32::MAX;

/// Operations on one key, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    calls: Vec<BoundCall>,
    /// The longest that the value can be when they are applied, whatever others do, in bytes.
    pub value_bytes_max: usize,
}

/// An operation with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct BoundCall {
    pub operation: Arc<Registered>,
    pub args: Box<[u8]>,
}

impl Calls {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &BoundCall> {
        self.calls.iter()
    }

    /// Adds one. `with_claims`: its claims, granted or not, are to be asked again.
    pub fn add(&mut self, call: BoundCall, value_bytes_max: usize, with_claims: bool) {
        self.value_bytes_max = self.value_bytes_max.max(value_bytes_max);
        if let Some(last) = self.calls.last_mut().filter(|last| Arc::ptr_eq(&last.operation, &call.operation))
        {
            let operation = &call.operation.operation;
            let merged = match with_claims {
                true => operation.merge_claims(&last.args, &call.args),
                false => operation.merge(&last.args, &call.args),
            };
            if let Some(merged) = merged {
                last.args = merged.into();
                return;
            }
        }
        self.calls.push(call);
    }

    /// True if they leave the length of the value as it is.
    pub fn keep_length(&self) -> bool {
        self.calls.iter().all(|call| call.operation.operation.length(&call.args) == Length::Same)
    }

    /// Returns the value that they make of `value`.
    pub fn apply(&self, value: &[u8]) -> Result<Vec<u8>> {
        let mut value = Cow::Borrowed(value);
        for BoundCall { operation, args } in &self.calls {
            value = Cow::Owned(operation.operation.apply(args, &value)?);
        }
        Ok(value.into_owned())
    }

    pub fn bytes(&self) -> usize {
        self.calls.iter().map(BoundCall::bytes).sum()
    }
}

impl BoundCall {
    /// Returns the bytes that it takes in memory, about.
    pub fn bytes(&self) -> usize {
        const OVERHEAD_BYTES: usize = 32;
        self.args.len() + OVERHEAD_BYTES
    }
}

/// Returns the error of operations whose key is gone. Their locks keep keys there, so it is not to be expected.
pub(crate) fn absent() -> Error {
    Error::Operation("its key is gone".into())
}
