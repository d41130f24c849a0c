//! CREATE SCHEMA with what it makes, and ALTER SCHEMA ... RENAME.

use gnomon_parser::ast::{CreateSchema, Ident, RelationName, Statement};

use super::{
    Ddl, clauses,
    moved::{Move, Place, move_relations},
    run_any,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Procedure, Schema},
    },
    context::Name,
    sink::{Tag, tag},
};

fn refuse_reserved(name: &str) -> Result<()> {
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(SqlError::new(SqlState("42939"), format!("unacceptable schema name \"{name}\""))
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    Ok(())
}

fn taken(name: &str) -> String {
    format!("schema \"{name}\" already exists")
}

pub(super) fn create_schema(ddl: &mut Ddl<'_>, create: &CreateSchema) -> Result<Tag> {
    let name = clauses::create_schema(create, ddl.session.settings.user(), ddl.notices)?;
    ddl.begin("CREATE SCHEMA")?;
    refuse_reserved(&name)?;
    if ddl.session.catalog().schema(&name).is_some() {
        if create.if_not_exists {
            let message = format!("{}, skipping", taken(&name));
            ddl.notices.push(Notice::note(SqlState::DUPLICATE_SCHEMA, message));
            return tag("CREATE SCHEMA");
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, taken(&name)));
    }
    let elements = elements(create, &name)?;
    let oid = ddl.session.shared.new_oid()?;
    ddl.change(|catalog| catalog.put_schema(Schema { oid, name: name.clone() }))?;
    let before = ddl.session.settings.clone();
    ddl.session.settings.look_first_in(&name);
    let made = elements.iter().try_for_each(|element| run_any(ddl, element).map(drop));
    ddl.session.settings = before;
    made?;
    tag("CREATE SCHEMA")
}

/// Returns what is made with a schema, in an order in which those that others use come first.
fn elements(create: &CreateSchema, schema: &str) -> Result<Vec<Statement>> {
    let ranked = |element: &Statement| {
        let mut element = element.clone();
        let (rank, name) = match &mut element {
            Statement::CreateSequence(create) => (0, &mut create.name),
            Statement::CreateTable(create) => (1, &mut create.name),
            Statement::CreateView(create) => (2, &mut create.name),
            Statement::CreateIndex(create) => (3, &mut create.table),
            Statement::Unsupported(unsupported) => {
                return Err(SqlError::unsupported(&unsupported.feature).at(unsupported.position));
            }
            _ => return Err(SqlError::unsupported("this element of CREATE SCHEMA")),
        };
        put_into(name, schema)?;
        Ok((rank, element))
    };
    let mut ranked = create.elements.iter().map(ranked).collect::<Result<Vec<(u8, Statement)>>>()?;
    ranked.sort_by_key(|(rank, _)| *rank);
    Ok(ranked.into_iter().map(|(_, element)| element).collect())
}

fn put_into(name: &mut RelationName, schema: &str) -> Result<()> {
    match &name.schema {
        Some(other) if *other.name != *schema => Err(SqlError::new(
            SqlState("42P15"),
            format!(
                "CREATE specifies a schema ({}) different from the one being created ({schema})",
                other.name
            ),
        )),
        Some(_) => Ok(()),
        None => {
            name.schema = Some(Ident::new(schema));
            Ok(())
        }
    }
}

/// ALTER SCHEMA ... RENAME TO. What is in the schema moves with it.
pub(super) fn rename_schema(ddl: &mut Ddl<'_>, name: &Name, to: &str) -> Result<()> {
    let Some(schema) = ddl.session.catalog().schema(&name.name).cloned() else {
        return Err(name.missing("schema"));
    };
    if ddl.session.catalog().schema(to).is_some() {
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, taken(to)));
    }
    refuse_reserved(to)?;
    let catalog = ddl.session.catalog();
    let moves = catalog.relations_of(&schema.name).into_iter().filter_map(|relation| {
        let name = Place::of(&relation).name;
        let is_part = matches!(&relation, Relation::Table(table) if table.partition_of.is_some());
        (!is_part).then(|| Move { relation, to: Place { schema: to.to_owned(), name } })
    });
    let moves: Vec<Move> = moves.collect();
    let of_schema = catalog.procedures().filter(|procedure| procedure.schema == schema.name);
    let procedures: Vec<Procedure> =
        of_schema.map(|procedure| Procedure { schema: to.to_owned(), ..(**procedure).clone() }).collect();
    ddl.change(|catalog| catalog.put_schema(Schema { oid: schema.oid, name: to.to_owned() }))?;
    move_relations(ddl, &moves)?;
    ddl.change(|catalog| procedures.into_iter().for_each(|procedure| catalog.put_procedure(procedure)))
}
