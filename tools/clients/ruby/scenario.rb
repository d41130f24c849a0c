# ActiveRecord: a migration, models, nested transactions, prepared statements and the errors of constraints.
require "active_record"

ActiveRecord::Base.establish_connection(ENV.fetch("CLIENT_URL"))
ActiveRecord::Migration.verbose = false

class MakeItems < ActiveRecord::Migration[6.1]
  def change
    create_table :rails_items, force: true do |t|
      t.string :name, null: false, limit: 40, index: { unique: true }
      t.text :tags, array: true
      t.decimal :price, precision: 8, scale: 2
      t.timestamps
    end
  end
end

class Item < ActiveRecord::Base
  self.table_name = "rails_items"
end

def check(holds, seen)
  raise "unexpected: #{seen.inspect}" unless holds
end

MakeItems.migrate(:up)
Item.create!(name: "a", tags: %w[x y], price: 1.5)
Item.insert_all([{ name: "b", created_at: Time.now, updated_at: Time.now }])
Item.transaction do
  Item.find_by!(name: "a").update!(price: 2)
  begin
    Item.transaction(requires_new: true) do
      Item.delete_all
      Item.create!(name: "c")
      Item.create!(name: "c")
    end
  rescue ActiveRecord::RecordNotUnique => error
    check(error.cause.result.error_field(PG::PG_DIAG_CONSTRAINT_NAME) == "index_rails_items_on_name", error)
  else
    raise "UNIQUE is not kept"
  end
  Item.lock.find_by!(name: "b").destroy!
end
check(Item.order(:id).pluck(:name, :tags, :price) == [["a", %w[x y], 2]], Item.all.to_a)

# A statement whose result changes under a connection that keeps it is prepared anew.
Item.find(1)
connection = Item.connection
connection.execute("alter table rails_items add column more int")
check(Item.find_by!(name: "a").attributes.key?("name"), "after ALTER TABLE")
Item.reset_column_information
check(Item.find(1).respond_to?(:more), "the new column")

check(connection.primary_key("rails_items") == "id", connection.primary_key("rails_items"))
indexes = connection.indexes("rails_items").map { |index| [index.name, index.columns, index.unique] }
check(indexes == [["index_rails_items_on_name", ["name"], true]], indexes)
price = connection.columns("rails_items").find { |column| column.name == "price" }
check([price.precision, price.scale] == [8, 2], price)
MakeItems.migrate(:down)
