//! Queries.

use std::fmt::{self, Display, Formatter};

use super::{Clause, commas};
use crate::ast::{
    CommonTable, Distinct, Expr, Frame, FrameBound, FrameExclusion, FrameMode, FunctionReference,
    GroupingElement, Ident, Join, JoinCondition, JoinKind, LockWait, LockingClause, Persistence, Query,
    QueryBody, RelationReference, Select, SetOperationKind, SetOperations, SortBy, SortDirection, Statement,
    TableColumn, TableReference, Target, WindowDefinition, With,
};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(with) = &self.with {
            write!(f, "{with} ")?;
        }
        self.body.fmt(f)?;
        if !self.order_by.is_empty() {
            write!(f, " ORDER BY {}", commas(&self.order_by))?;
        }
        if let Some(limit) = &self.limit {
            match (&limit.count, limit.is_with_ties) {
                (Some(count), true) => write!(f, " FETCH FIRST ({count}) ROWS WITH TIES")?,
                (Some(count), false) => write!(f, " LIMIT {count}")?,
                (None, _) if limit.offset.is_none() => f.write_str(" LIMIT ALL")?,
                (None, _) => {}
            }
            Clause(" OFFSET ", limit.offset.as_ref()).fmt(f)?;
        }
        self.locks.iter().try_for_each(|lock| write!(f, " {lock}"))
    }
}

/// Prints an operand of a set operation.
struct Operand<'a>(&'a QueryBody);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            body @ QueryBody::SetOperations(_) => write!(f, "({body})"),
            body => body.fmt(f),
        }
    }
}

impl Display for QueryBody {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            QueryBody::Select(select) => select.fmt(f),
            QueryBody::Values(values) => {
                f.write_str("VALUES ")?;
                for (at, row) in values.rows.iter().enumerate() {
                    write!(f, "{}({})", if at > 0 { ", " } else { "" }, commas(row))?;
                }
                Ok(())
            }
            QueryBody::SetOperations(operations) => operations.fmt(f),
            QueryBody::Query(query) => write!(f, "({query})"),
        }
    }
}

impl Display for SetOperations {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Operand(&self.first).fmt(f)?;
        for operation in &self.rest {
            let word = match operation.kind {
                SetOperationKind::Union => "UNION",
                SetOperationKind::Intersect => "INTERSECT",
                SetOperationKind::Except => "EXCEPT",
            };
            let all = if operation.is_all { " ALL" } else { "" };
            write!(f, " {word}{all} {}", Operand(&operation.right))?;
        }
        Ok(())
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT")?;
        match &self.distinct {
            Distinct::No => {}
            Distinct::Yes => f.write_str(" DISTINCT")?,
            Distinct::On(exprs) => write!(f, " DISTINCT ON ({})", commas(exprs))?,
        }
        if !self.targets.is_empty() {
            write!(f, " {}", commas(&self.targets))?;
        }
        if let Some(into) = &self.into {
            let words = match into.persistence {
                Persistence::Permanent => "TABLE",
                Persistence::Unlogged => "UNLOGGED TABLE",
                Persistence::Temporary => "TEMPORARY TABLE",
            };
            write!(f, " INTO {words} {}", into.name)?;
        }
        if !self.from.is_empty() {
            write!(f, " FROM {}", commas(&self.from))?;
        }
        Clause(" WHERE ", self.filter.as_ref()).fmt(f)?;
        if !self.group_by.is_empty() {
            let distinct = if self.is_group_distinct { "DISTINCT " } else { "" };
            write!(f, " GROUP BY {distinct}{}", commas(&self.group_by))?;
        }
        Clause(" HAVING ", self.having.as_ref()).fmt(f)?;
        for (at, window) in self.windows.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { " WINDOW " })?;
            if let Some(name) = &window.name {
                write!(f, "{name} AS ")?;
            }
            window.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value, Clause(" AS ", self.alias.as_ref()))
    }
}

impl Display for GroupingElement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // Without parentheses, a call of such a name would be the clause.
            GroupingElement::Expr(expr @ Expr::Function(call)) if matches!(&call.name.0[..], [name] if matches!(&*name.name, "rollup" | "cube")) =>
            {
                write!(f, "({expr})")
            }
            GroupingElement::Expr(expr) => expr.fmt(f),
            GroupingElement::Empty(_) => f.write_str("()"),
            GroupingElement::Rollup(exprs, _) => write!(f, "ROLLUP ({})", commas(exprs)),
            GroupingElement::Cube(exprs, _) => write!(f, "CUBE ({})", commas(exprs)),
            GroupingElement::Sets(sets, _) => write!(f, "GROUPING SETS ({})", commas(sets)),
        }
    }
}

impl Display for SortBy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)?;
        match &self.direction {
            SortDirection::Default => {}
            SortDirection::Ascending => f.write_str(" ASC")?,
            SortDirection::Descending => f.write_str(" DESC")?,
            SortDirection::Using(operator) => write!(f, " USING {operator}")?,
        }
        f.write_str(match self.is_nulls_first {
            Some(true) => " NULLS FIRST",
            Some(false) => " NULLS LAST",
            None => "",
        })
    }
}

/// Prints a name in a place where these words, without quotes, would begin a clause.
struct NotClause<'a>(&'a Ident, &'a [&'a str]);

impl Display for NotClause<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.1.contains(&&*self.0.name) {
            true => write!(f, "\"{}\"", self.0.name),
            false => self.0.fmt(f),
        }
    }
}

impl Display for WindowDefinition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let base = self.base.as_ref().map(|base| NotClause(base, &["partition", "range", "rows", "groups"]));
        parts.extend(base.map(|base| base.to_string()));
        if !self.partition_by.is_empty() {
            parts.push(format!("PARTITION BY {}", commas(&self.partition_by)));
        }
        if !self.order_by.is_empty() {
            parts.push(format!("ORDER BY {}", commas(&self.order_by)));
        }
        parts.extend(self.frame.as_ref().map(|frame| frame.to_string()));
        write!(f, "({})", parts.join(" "))
    }
}

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            FrameMode::Range => "RANGE",
            FrameMode::Rows => "ROWS",
            FrameMode::Groups => "GROUPS",
        };
        match self.has_end {
            true => write!(f, "{mode} BETWEEN {} AND {}", self.start, self.end)?,
            false => write!(f, "{mode} {}", self.start)?,
        }
        f.write_str(match self.exclusion {
            FrameExclusion::NoOthers => "",
            FrameExclusion::CurrentRow => " EXCLUDE CURRENT ROW",
            FrameExclusion::Group => " EXCLUDE GROUP",
            FrameExclusion::Ties => " EXCLUDE TIES",
        })
    }
}

/// Prints the offset of a frame, without parentheses where PostgreSQL prints none.
struct Offset<'a>(&'a Expr);

impl Display for Offset<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_constant = |expr: &Expr| matches!(expr, Expr::Constant(_));
        let is_bare = match self.0 {
            Expr::Cast(cast) => is_constant(&cast.operand),
            expr => is_constant(expr),
        };
        match is_bare {
            true => self.0.fmt(f),
            false => write!(f, "({})", self.0),
        }
    }
}

impl Display for FrameBound {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            FrameBound::UnboundedPreceding => f.write_str("UNBOUNDED PRECEDING"),
            FrameBound::Preceding(offset) => write!(f, "{} PRECEDING", Offset(offset)),
            FrameBound::CurrentRow => f.write_str("CURRENT ROW"),
            FrameBound::Following(offset) => write!(f, "{} FOLLOWING", Offset(offset)),
            FrameBound::UnboundedFollowing => f.write_str("UNBOUNDED FOLLOWING"),
        }
    }
}

impl Display for LockingClause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.strength.words())?;
        if !self.tables.is_empty() {
            write!(f, " OF {}", commas(&self.tables))?;
        }
        f.write_str(match self.wait {
            LockWait::Wait => "",
            LockWait::Nowait => " NOWAIT",
            LockWait::SkipLocked => " SKIP LOCKED",
        })
    }
}

impl Display for With {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let recursive = if self.is_recursive { "RECURSIVE " } else { "" };
        write!(f, "WITH {recursive}{}", commas(&self.tables))
    }
}

impl Display for CommonTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        NotClause(&self.name, &["recursive"]).fmt(f)?;
        if !self.columns.is_empty() {
            write!(f, " ({})", commas(&self.columns))?;
        }
        f.write_str(match self.is_materialized {
            Some(true) => " AS MATERIALIZED ",
            Some(false) => " AS NOT MATERIALIZED ",
            None => " AS ",
        })?;
        match &*self.statement {
            Statement::Query(query) => write!(f, "({query})")?,
            Statement::Insert(insert) => write!(f, "({insert})")?,
            Statement::Update(update) => write!(f, "({update})")?,
            Statement::Delete(delete) => write!(f, "({delete})")?,
            // The grammar has no other here.
            _ => return Err(fmt::Error),
        }
        if let Some(search) = &self.search {
            let order = if search.is_breadth_first { "BREADTH" } else { "DEPTH" };
            write!(f, " SEARCH {order} FIRST BY {} SET {}", commas(&search.columns), search.sequence)?;
        }
        if let Some(cycle) = &self.cycle {
            write!(f, " CYCLE {} SET {}", commas(&cycle.columns), cycle.mark)?;
            if let Some((value, default)) = &cycle.values {
                write!(f, " TO {} DEFAULT {}", Literal(value), Literal(default))?;
            }
            write!(f, " USING {}", cycle.path)?;
        }
        Ok(())
    }
}

/// Prints a constant where no operator may stand: a type is before its string.
struct Literal<'a>(&'a Expr);

impl Display for Literal<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Cast(cast) => write!(f, "{} {}", cast.ty, cast.operand),
            other => other.fmt(f),
        }
    }
}

impl Display for TableReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TableReference::Relation(relation) => relation.fmt(f),
            TableReference::Function(function) => function.fmt(f),
            TableReference::Subquery(subquery) => {
                let lateral = if subquery.is_lateral { "LATERAL " } else { "" };
                write!(f, "{lateral}({}) {}", subquery.query, subquery.alias)
            }
            TableReference::Join(join) => join.fmt(f),
        }
    }
}

impl Display for RelationReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let only = if self.is_only { "ONLY " } else { "" };
        write!(f, "{only}{}{}", self.name, Clause(" AS ", self.alias.as_ref()))?;
        if let Some(sample) = &self.sample {
            write!(f, " TABLESAMPLE {}({})", sample.method, commas(&sample.arguments))?;
            if let Some(seed) = &sample.repeatable {
                write!(f, " REPEATABLE ({seed})")?;
            }
        }
        Ok(())
    }
}

impl Display for TableColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.name, self.ty, Clause(" COLLATE ", self.collation.as_ref()))
    }
}

impl Display for FunctionReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_lateral {
            f.write_str("LATERAL ")?;
        }
        if self.is_rows_from {
            f.write_str("ROWS FROM (")?;
        }
        for (at, (call, columns)) in self.functions.iter().enumerate() {
            write!(f, "{}{}", if at > 0 { ", " } else { "" }, Call(call))?;
            if !columns.is_empty() {
                write!(f, " AS ({})", commas(columns))?;
            }
        }
        if self.is_rows_from {
            f.write_str(")")?;
        }
        if self.with_ordinality {
            f.write_str(" WITH ORDINALITY")?;
        }
        match (&self.alias, self.columns.is_empty()) {
            (None, true) => Ok(()),
            (None, false) => write!(f, " AS ({})", commas(&self.columns)),
            (Some(alias), true) => write!(f, " AS {alias}"),
            (Some(alias), false) => write!(f, " AS {} ({})", alias.name, commas(&self.columns)),
        }
    }
}

/// Prints a call where no other operator may stand.
struct Call<'a>(&'a Expr);

impl Display for Call<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Cast(cast) => write!(f, "CAST({} AS {})", cast.operand, cast.ty),
            other => other.fmt(f),
        }
    }
}

impl Join {
    /// Prints it without parentheses and alias. A chain of joins nests to the left without any, however long it is.
    fn print_inside(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let natural = if self.condition == JoinCondition::Natural { "NATURAL " } else { "" };
        let kind = match self.kind {
            JoinKind::Inner => "",
            JoinKind::Left => "LEFT ",
            JoinKind::Right => "RIGHT ",
            JoinKind::Full => "FULL ",
            JoinKind::Cross => "CROSS ",
        };
        match &self.left {
            TableReference::Join(left) if left.alias.is_none() => left.print_inside(f)?,
            left => left.fmt(f)?,
        }
        write!(f, " {natural}{kind}JOIN {}", self.right)?;
        match &self.condition {
            JoinCondition::None | JoinCondition::Natural => Ok(()),
            JoinCondition::On(condition) => write!(f, " ON {condition}"),
            JoinCondition::Using(columns, alias) => {
                write!(f, " USING ({}){}", commas(columns), Clause(" AS ", alias.as_ref()))
            }
        }
    }
}

impl Display for Join {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        self.print_inside(f)?;
        write!(f, "){}", Clause(" AS ", self.alias.as_ref()))
    }
}
