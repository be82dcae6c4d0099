CREATE TABLE customers (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    region TEXT NOT NULL,
    referrer_id INTEGER
);

CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    category TEXT
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL,
    placed_at TEXT NOT NULL,      -- always YYYY-MM-DD HH:MM:SS
    status TEXT
);

CREATE TABLE lines (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL,
    product_id INTEGER,
    quantity INTEGER NOT NULL,
    cents INTEGER                 -- negative for discounts and returns
);

CREATE TABLE payments (
    id INTEGER PRIMARY KEY,
    order_id INTEGER,
    kind TEXT NOT NULL,
    cents INTEGER NOT NULL,
    settled_on TEXT               -- YYYY-MM-DD
);

CREATE TABLE blocked (
    customer_id INTEGER,
    until TEXT                    -- YYYY-MM-DD
);
