//! Names of functions and operators that a schema may qualify.

use gnomon_parser::ast::{Ident, OperatorName, QualifiedName};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    binder::syntax::{dotted, function_name, operator_name},
    types::Type,
};

impl Typing<'_> {
    /// The name of a function, which may only be qualified by the system's schemas, and the database's name.
    ///
    /// # Errors
    /// 3F000 for a schema that does not exist, 42883 for another one, 0A000 for another database.
    pub fn function_name(&self, name: &QualifiedName, database: &str) -> Result<String> {
        let local = match &name.0[..] {
            [of, rest @ ..] if rest.len() == 2 && *of.name == *database => &QualifiedName(rest.to_vec()),
            [_, _, _] => {
                let message = format!("cross-database references are not implemented: {}", dotted(name));
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            [_] | [_, _] => name,
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", dotted(name));
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
        };
        let schema = local.0.split_last().map_or(&[][..], |(_, schema)| schema);
        function_name(local).map_err(|error| self.schema_missing(schema).unwrap_or(error))
    }

    /// The name of an operator, which may only be qualified by the system's schema.
    ///
    /// # Errors
    /// As [`Typing::function_name`].
    pub fn operator_name(&self, operator: &OperatorName) -> Result<String> {
        operator_name(operator).map_err(|error| match self.schema_missing(&operator.schema) {
            Some(missing) => missing.at(operator.position),
            None => error,
        })
    }

    /// The error for a schema that does not exist.
    fn schema_missing(&self, schema: &[Ident]) -> Option<SqlError> {
        let [schema] = schema else { return None };
        let quoted = format!("\"{}\"", schema.name.replace('"', "\"\""));
        self.context.environment.object_by_name(Type::Regnamespace, &quoted).err()
    }
}
