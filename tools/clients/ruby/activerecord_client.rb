# The scenarios of ActiveRecord.
require "active_record"
require "timeout"

URL = ENV.fetch("CLIENT_URL")
SECONDS = 20
ActiveRecord::Base.establish_connection(URL)
ActiveRecord::Migration.verbose = false

class MakeItems < ActiveRecord::Migration[6.1]
  def change
    create_table :rails_items do |t|
      t.string :name, null: false, limit: 40, index: { unique: true }
      t.text :tags, array: true
      t.decimal :price, precision: 8, scale: 2
      t.integer :count, null: false, default: 0
      t.timestamps
    end
  end
end

class ChangeItems < ActiveRecord::Migration[6.1]
  def change
    add_column :rails_items, :more, :bigint, default: 7
    add_index :rails_items, %i[more name], name: "rails_more", order: { more: :desc }
    rename_column :rails_items, :price, :cost
    rename_table :rails_items, :rails_things
    change_column_null :rails_things, :more, false
    add_check_constraint :rails_things, "more > 0", name: "rails_positive"
    change_column_comment :rails_things, :more, from: nil, to: "more of it"
    reversible do |direction|
      direction.up { change_column :rails_things, :name, :text }
      direction.down { change_column :rails_things, :name, :string, limit: 40 }
    end
  end
end

class Item < ActiveRecord::Base
  self.table_name = "rails_items"
end

class Author < ActiveRecord::Base
  self.table_name = "rails_authors"
  has_many :books, dependent: :destroy
end

class Book < ActiveRecord::Base
  self.table_name = "rails_books"
  belongs_to :author
end

def check(holds, seen = "a check")
  raise "unexpected: #{seen.inspect}" unless holds
end

def same(found, expected)
  raise "#{found.inspect}, expected #{expected.inspect}" unless found == expected
end

def fails(kind, state)
  yield
  raise "no error, expected #{state}"
rescue kind => error
  same(error.cause.result.error_field(PG::PG_DIAG_SQLSTATE), state)
  error
end

def connection
  ActiveRecord::Base.connection
end

# Makes the table of items anew, with two of them.
def items
  connection.execute("DROP TABLE IF EXISTS rails_items, rails_things")
  MakeItems.migrate(:up)
  Item.reset_column_information
  Item.create!(name: "a", tags: %w[x y], price: 1.5)
  Item.insert_all([{ name: "b", created_at: Time.now, updated_at: Time.now }])
end

# Makes a table of one column anew, and its model.
def one_column(name)
  connection.create_table(name, force: true) { |t| yield t }
  Class.new(ActiveRecord::Base) { self.table_name = name }
end

SCENARIOS = {
  "connect" => lambda {
    check(connection.database_version >= 150_000, connection.database_version)
    same(connection.select_value("SELECT 1 + 1"), 2)
    same(connection.current_schema, "public")
  },
  "create, read, update, delete" => lambda {
    items
    Item.find_by!(name: "a").update!(price: 2)
    same(Item.order(:id).pluck(:name, :tags, :price), [["a", %w[x y], 2], ["b", nil, nil]])
    same(Item.where(name: "b").update_all("count = count + 1"), 1)
    Item.increment_counter(:count, Item.find_by!(name: "b").id)
    same(Item.sum(:count), 2)
    same(Item.find_or_create_by!(name: "c").id, 3)
    same(Item.where.not(name: "a").delete_all, 2)
    check(Item.first.destroy!.destroyed?)
  },
  "upserts and batches" => lambda {
    items
    now = { created_at: Time.now, updated_at: Time.now }
    Item.upsert_all([{ name: "a", count: 9, **now }], unique_by: :name)
    same(Item.find_by!(name: "a").count, 9)
    inserted = Item.insert_all((1..300).map { |i| { name: "n#{i}", count: i, **now } }, returning: %w[id name])
    same(inserted.length, 300)
    same(Item.find_each(batch_size: 50).sum(&:count), 45_159)
    same(Item.in_batches(of: 100).count, 4)
  },
  "queries" => lambda {
    items
    same(Item.group(:count).having("count(*) > 1").count, { 0 => 2 })
    same(Item.where("name ILIKE ?", "A%").or(Item.where(name: "z")).count, 1)
    same(Item.where("'x' = ANY(tags)").pluck(:name), ["a"])
    same(Item.average(:price).to_f, 1.5)
    same(Item.from(Item.select(:name).distinct, :names).count, 2)
    same(Item.where(created_at: 1.hour.ago..).exists?, true)
    check(Item.where(name: "a").explain.include?("rails_items"))
  },
  "transactions and nested savepoints" => lambda {
    items
    Item.transaction do
      Item.create!(name: "d")
      error = fails(ActiveRecord::RecordNotUnique, "23505") do
        Item.transaction(requires_new: true) do
          Item.delete_all
          Item.create!(name: "c")
          Item.create!(name: "c")
        end
      end
      same(error.cause.result.error_field(PG::PG_DIAG_CONSTRAINT_NAME), "index_rails_items_on_name")
      Item.lock.find_by!(name: "b").destroy!
      Item.lock("FOR UPDATE SKIP LOCKED").to_a
    end
    same(Item.order(:name).pluck(:name), %w[a d])
    level = Item.transaction(isolation: :serializable) { connection.select_value("SHOW transaction_isolation") }
    same(level, "serializable")
  },
  "prepared statements after a change of schema" => lambda {
    # A statement whose result changes under a connection that keeps it is prepared anew.
    items
    3.times { Item.find(1) }
    connection.execute("ALTER TABLE rails_items ADD COLUMN later int")
    check(Item.find_by!(name: "a").attributes.key?("name"), "after ALTER TABLE")
    Item.reset_column_information
    check(Item.find(1).respond_to?(:later), "the new column")
  },
  "errors" => lambda {
    items
    fails(ActiveRecord::NotNullViolation, "23502") { Item.create! }
    fails(ActiveRecord::ValueTooLong, "22001") { Item.create!(name: "x" * 50) }
    fails(ActiveRecord::StatementInvalid, "42703") { Item.where("nosuch = 1").to_a }
    fails(ActiveRecord::RangeError, "22003") { connection.execute("SELECT 99999::int2") }
    connection.execute("SET statement_timeout = 100")
    fails(ActiveRecord::QueryCanceled, "57014") { connection.execute("SELECT pg_sleep(5)") }
    connection.execute("RESET statement_timeout")
  },
  "introspection" => lambda {
    items
    same(connection.primary_key("rails_items"), "id")
    indexes = connection.indexes("rails_items").map { |index| [index.name, index.columns, index.unique] }
    same(indexes, [["index_rails_items_on_name", ["name"], true]])
    price = connection.columns("rails_items").find { |column| column.name == "price" }
    same([price.precision, price.scale, price.sql_type], [8, 2, "numeric(8,2)"])
    check(connection.tables.include?("rails_items"))
    same(connection.foreign_keys("rails_items"), [])
    same(connection.check_constraints("rails_items"), [])
    same(connection.default_sequence_name("rails_items", "id"), "public.rails_items_id_seq")
  },
  "dump of the schema" => lambda {
    items
    out = StringIO.new
    ActiveRecord::SchemaDumper.ignore_tables = [/^(?!rails_items)/]
    ActiveRecord::SchemaDumper.dump(connection, out)
    check(out.string.include?('t.decimal "price", precision: 8, scale: 2'), out.string)
  },
  "migrations up and down" => lambda {
    items
    ChangeItems.migrate(:up)
    same(connection.select_value("SELECT sum(more) FROM rails_things").to_i, 14)
    same(connection.columns("rails_things").find { |column| column.name == "more" }.comment, "more of it")
    ChangeItems.migrate(:down)
    same(connection.columns("rails_items").map(&:name), %w[id name tags price count created_at updated_at])
    MakeItems.migrate(:down)
    check(!connection.table_exists?("rails_items"))
  },
  "table of migrations and advisory lock" => lambda {
    context = ActiveRecord::MigrationContext.new([], ActiveRecord::SchemaMigration)
    ActiveRecord::SchemaMigration.create_table
    ActiveRecord::InternalMetadata.create_table
    same(context.current_version, 0)
    check(connection.get_advisory_lock(42))
    check(connection.release_advisory_lock(42))
  },
  "associations and foreign keys" => lambda {
    connection.execute("DROP TABLE IF EXISTS rails_books, rails_authors")
    connection.create_table(:rails_authors) { |t| t.string :name }
    connection.create_table(:rails_books) do |t|
      t.references :author, null: false, foreign_key: { to_table: :rails_authors, on_delete: :cascade }
    end
    ann = Author.create!(name: "ann")
    ann.books.create!
    same(Author.includes(:books).joins(:books).first.books.size, 1)
    fails(ActiveRecord::InvalidForeignKey, "23503") do
      connection.execute("INSERT INTO rails_books (author_id) VALUES (99)")
    end
    same(connection.foreign_keys("rails_books").map(&:on_delete), [:cascade])
    ann.destroy!
    same(Book.count, 0)
  },
  "json type" => lambda {
    docs = one_column(:rails_docs) { |t| t.jsonb :doc, default: {} }
    docs.create!(doc: { a: [1, nil] })
    same(docs.where("doc @> ?", '{"a": [1]}').first.doc, { "a" => [1, nil] })
  },
  "range, network and uuid types" => lambda {
    typed = one_column(:rails_typed) do |t|
      t.uuid :key, default: -> { "gen_random_uuid()" }
      t.inet :ip
      t.int4range :ages
    end
    typed.create!(ip: "10.0.0.1", ages: 1...5)
    same(typed.first.ages, 1...5)
  },
  "views" => lambda {
    items
    connection.execute("CREATE VIEW rails_names AS SELECT name FROM rails_items")
    same(connection.views, ["rails_names"])
    connection.execute("DROP VIEW rails_names")
  },
  "COPY by the driver" => lambda {
    connection.execute("CREATE TABLE rails_copied (id int, name text)")
    raw = connection.raw_connection
    raw.copy_data("COPY rails_copied FROM STDIN") { raw.put_copy_data("1\tone\n2\t\\N\n") }
    out = +""
    raw.copy_data("COPY rails_copied TO STDOUT CSV") do
      while (row = raw.get_copy_data)
        out << row
      end
    end
    same(out, "1,one\n2,\n")
  },
  "listen and notify by the driver" => lambda {
    raw = connection.raw_connection
    raw.exec("LISTEN rails_news")
    raw.exec("NOTIFY rails_news, 'hello'")
    payload = nil
    raw.wait_for_notify(3) { |_, _, text| payload = text }
    same(payload, "hello")
  },
  "single rows by the driver" => lambda {
    raw = connection.raw_connection
    raw.send_query("SELECT * FROM generate_series(1, 100)")
    raw.set_single_row_mode
    seen = 0
    while (result = raw.get_result)
      result.stream_each { seen += 1 }
    end
    same(seen, 100)
  },
}.freeze

puts "version #{ActiveRecord.version}"
SCENARIOS.each do |name, scenario|
  next unless name.include?(ENV.fetch("CLIENT_ONLY", ""))

  begin
    ActiveRecord::Base.establish_connection(URL)
    Timeout.timeout(SECONDS) { scenario.call }
    puts "ok #{name}"
  rescue StandardError => error
    puts "FAIL #{name}: #{error.class}: #{error.message.lines.first(2).join(' ').gsub(/\s+/, ' ')}"
    puts [error.message, *error.backtrace.first(6)].join("\n").gsub(/^/, "  ")
  end
  $stdout.flush
end
