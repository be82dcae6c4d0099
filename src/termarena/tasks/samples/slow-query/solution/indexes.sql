CREATE INDEX customers_region ON customers (region);
CREATE INDEX orders_by_customer ON orders (customer_id, placed_at, status);
CREATE INDEX lines_by_order ON lines (order_id, product_id, quantity, cents);
CREATE INDEX payments_by_order ON payments (order_id);
