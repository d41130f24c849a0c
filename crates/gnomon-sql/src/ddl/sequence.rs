//! CREATE and ALTER SEQUENCE.

use gnomon_engine::TreeLock;
use sqlparser::ast::{ObjectName, ObjectNamePart};

use super::{Ddl, clauses::sequence_cache, column_of, refuse_taken, skip_missing};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Oid, Sequence},
    },
    session::parse::SequenceOption,
    sink::{Tag, tag},
    types::{ColumnType, Type, column_type},
};

/// The options of a sequence that were given so far.
pub(super) struct SequenceSpec {
    ty: ColumnType,
    increment: i64,
    min: Option<i64>,
    max: Option<i64>,
    start: Option<i64>,
    cycle: bool,
    /// RESTART, with its value if one was given.
    pub(super) restart: Option<Option<i64>>,
    /// OWNED BY, with the column; none for NONE.
    owned_by: Option<Option<ObjectName>>,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The values of an integer type.
fn range(ty: Type) -> (i64, i64) {
    match ty {
        Type::Int2 => (i16::MIN.into(), i16::MAX.into()),
        Type::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

impl SequenceSpec {
    /// An ascending sequence of a type.
    pub(super) fn new(ty: ColumnType) -> SequenceSpec {
        SequenceSpec {
            ty,
            increment: 1,
            min: None,
            max: None,
            start: None,
            cycle: false,
            restart: None,
            owned_by: None,
        }
    }

    /// Returns the options that a sequence has.
    fn of(sequence: &Sequence) -> SequenceSpec {
        SequenceSpec {
            ty: sequence.ty,
            increment: sequence.increment,
            min: Some(sequence.min),
            max: Some(sequence.max),
            start: Some(sequence.start),
            cycle: sequence.cycle,
            restart: None,
            owned_by: None,
        }
    }

    pub(super) fn apply(&mut self, option: &SequenceOption) -> Result<()> {
        match option {
            SequenceOption::As(data_type) => {
                let ty = column_type(data_type)?;
                if !matches!(ty.ty, Type::Int2 | Type::Int4 | Type::Int8) {
                    return Err(invalid("sequence type must be smallint, integer, or bigint"));
                }
                // Bounds that were the former type's become the new one's.
                let (min, max) = range(self.ty.ty);
                self.min = self.min.filter(|bound| *bound != min);
                self.max = self.max.filter(|bound| *bound != max);
                self.ty = ty;
            }
            SequenceOption::Increment(0) => return Err(invalid("INCREMENT must not be zero")),
            SequenceOption::Increment(increment) => self.increment = *increment,
            SequenceOption::Min(min) => self.min = *min,
            SequenceOption::Max(max) => self.max = *max,
            SequenceOption::Start(start) => self.start = Some(*start),
            SequenceOption::Restart(value) => self.restart = Some(*value),
            SequenceOption::Cache(cache) if *cache <= 0 => {
                return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
            }
            SequenceOption::Cache(_) => {}
            SequenceOption::Cycle(cycle) => self.cycle = *cycle,
            SequenceOption::OwnedBy(owner) => self.owned_by = Some(owner.clone()),
        }
        Ok(())
    }

    /// The sequence, whose bounds are checked.
    pub(super) fn build(
        &self,
        oid: Oid,
        schema: &str,
        name: &str,
        owner: Option<(Oid, usize)>,
    ) -> Result<Sequence> {
        let up = self.increment > 0;
        let (lowest, highest) = range(self.ty.ty);
        let min = self.min.unwrap_or(if up { 1 } else { lowest });
        let max = self.max.unwrap_or(if up { highest } else { -1 });
        for (what, bound) in [("MINVALUE", min), ("MAXVALUE", max)] {
            if bound < lowest || bound > highest {
                let ty = crate::types::format_type(self.ty.ty, None);
                return Err(invalid(format!("{what} ({bound}) is out of range for sequence data type {ty}")));
            }
        }
        if min >= max {
            return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
        }
        let start = self.start.unwrap_or(if up { min } else { max });
        let within = |what: &str, value: i64| {
            if value < min {
                Err(invalid(format!("{what} value ({value}) cannot be less than MINVALUE ({min})")))
            } else if value > max {
                Err(invalid(format!("{what} value ({value}) cannot be greater than MAXVALUE ({max})")))
            } else {
                Ok(())
            }
        };
        within("START", start)?;
        let first = self.restart.flatten().unwrap_or(start);
        within("RESTART", first)?;
        Ok(Sequence {
            oid,
            schema: schema.to_owned(),
            name: name.to_owned(),
            ty: self.ty,
            increment: self.increment,
            min,
            max,
            start,
            cycle: self.cycle,
            generation: 0,
            first,
            owner,
        })
    }
}

pub(super) fn create_sequence(
    ddl: &mut Ddl<'_>,
    name: &ObjectName,
    if_not_exists: bool,
    options: &[SequenceOption],
) -> Result<Tag> {
    ddl.begin("CREATE SEQUENCE")?;
    let name = ddl.session.name(name)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    if view.catalog.has_relation(&schema, &name.name) && if_not_exists {
        ddl.notices.push(Notice::note(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{}\" already exists, skipping", name.name),
        ));
        return tag("CREATE SEQUENCE");
    }
    refuse_taken(&view, &schema, &name.name)?;
    let mut spec = SequenceSpec::new(ColumnType { ty: Type::Int8, modifier: -1 });
    for option in options {
        if matches!(option, SequenceOption::Cache(count) if *count != 1) {
            sequence_cache(ddl.notices);
        }
        spec.apply(option)?;
    }
    let owner = owner(ddl, &spec)?.flatten();
    let sequence = spec.build(ddl.session.shared.new_oid()?, &schema, &name.name, owner)?;
    ddl.change(|catalog| catalog.put_sequence(sequence))?;
    tag("CREATE SEQUENCE")
}

pub(super) fn alter_sequence(
    ddl: &mut Ddl<'_>,
    name: &ObjectName,
    if_exists: bool,
    options: &[SequenceOption],
) -> Result<Tag> {
    ddl.begin("ALTER SEQUENCE")?;
    let name = ddl.session.name(name)?;
    let sequence = match ddl.session.view().find(&name) {
        Some(Relation::Sequence(sequence)) => sequence,
        Some(_) => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a sequence", name.name),
            ));
        }
        None => {
            skip_missing(&name, "relation", if_exists, ddl.notices)?;
            return tag("ALTER SEQUENCE");
        }
    };
    ddl.lock_sequence(sequence.oid, TreeLock::SharedAlone)?;
    let mut spec = SequenceSpec::of(&sequence);
    for option in options {
        if matches!(option, SequenceOption::Cache(count) if *count != 1) {
            sequence_cache(ddl.notices);
        }
        spec.apply(option)?;
    }
    let owner = match owner(ddl, &spec)? {
        Some(owner) => owner,
        None => sequence.owner,
    };
    let mut changed = spec.build(sequence.oid, &sequence.schema, &sequence.name, owner)?;
    let (last, drawn) = ddl.session.shared.sequences.last(&ddl.session.shared.engine, &sequence)?;
    if spec.restart.is_some() {
        changed.generation = sequence.generation.wrapping_add(1);
    } else {
        if last < changed.min || last > changed.max {
            let (what, bound) = if last < changed.min {
                ("less than MINVALUE", changed.min)
            } else {
                ("greater than MAXVALUE", changed.max)
            };
            return Err(invalid(format!("RESTART value ({last}) cannot be {what} ({bound})")));
        }
        changed.generation = sequence.generation;
        changed.first = if drawn { sequence.first } else { last };
    }
    ddl.change(|catalog| catalog.put_sequence(changed))?;
    tag("ALTER SEQUENCE")
}

/// The column of OWNED BY; none if the option was not given.
fn owner(ddl: &mut Ddl<'_>, spec: &SequenceSpec) -> Result<Option<Option<(Oid, usize)>>> {
    let Some(owned_by) = &spec.owned_by else { return Ok(None) };
    let Some(name) = owned_by else { return Ok(Some(None)) };
    let mut table = name.clone();
    let column = match table.0.pop() {
        Some(ObjectNamePart::Identifier(column)) if !table.0.is_empty() => column,
        _ => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid OWNED BY option")
                .hint("Specify OWNED BY table.column or OWNED BY NONE."));
        }
    };
    let table = ddl.session.view().table(&ddl.session.name(&table)?)?;
    let position = column_of(&table, &column)?;
    Ok(Some(Some((table.oid, position))))
}
