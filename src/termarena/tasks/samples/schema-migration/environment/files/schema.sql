CREATE TABLE customer (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    email TEXT NOT NULL UNIQUE,
    phone TEXT,
    since TEXT
);

CREATE TABLE product (
    sku TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL
);

CREATE TABLE purchase (
    number INTEGER PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customer (id),
    placed_on TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'paid', 'shipped', 'cancelled'))
);

CREATE TABLE purchase_line (
    purchase_number INTEGER NOT NULL REFERENCES purchase (number),
    line INTEGER NOT NULL CHECK (line > 0),
    sku TEXT NOT NULL REFERENCES product (sku),
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_cents INTEGER NOT NULL CHECK (unit_cents >= 0),
    PRIMARY KEY (purchase_number, line)
);

CREATE TABLE quarantine (
    source TEXT NOT NULL CHECK (source IN ('cust', 'ord', 'ord_item')),
    source_rowid INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (source, source_rowid)
);
