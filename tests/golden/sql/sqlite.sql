CREATE TABLE annotation (
	id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	revision TEXT NOT NULL,
	text TEXT NOT NULL,
	noted_at TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key")
);
CREATE TABLE baseline (
	id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	name TEXT NOT NULL,
	test_id INTEGER NOT NULL,
	machine_id INTEGER NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key"),
	FOREIGN KEY(test_id) REFERENCES test (id),
	FOREIGN KEY(machine_id) REFERENCES machine (id)
);
CREATE TABLE estimate (
	run_id INTEGER NOT NULL,
	place BIGINT NOT NULL,
	metric_id INTEGER NOT NULL,
	value DOUBLE,
	low DOUBLE,
	high DOUBLE,
	n BIGINT NOT NULL,
	warnings TEXT NOT NULL,
	PRIMARY KEY (run_id, place),
	FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE,
	FOREIGN KEY(metric_id) REFERENCES metric (id)
)
 WITHOUT ROWID;
CREATE TABLE machine (
	id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	cpu_model TEXT NOT NULL,
	architecture TEXT NOT NULL,
	system TEXT NOT NULL,
	python TEXT NOT NULL,
	record TEXT NOT NULL,
	cores BIGINT NOT NULL,
	memory_gb BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key")
);
CREATE TABLE metric (
	id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	statistic TEXT NOT NULL,
	better TEXT NOT NULL,
	name TEXT NOT NULL,
	source TEXT NOT NULL,
	per TEXT NOT NULL,
	method TEXT NOT NULL,
	estimated BOOLEAN NOT NULL,
	confidence DOUBLE,
	PRIMARY KEY (id),
	UNIQUE ("key")
);
CREATE TABLE run (
	id INTEGER NOT NULL,
	baseline_id INTEGER NOT NULL,
	state TEXT NOT NULL,
	started_at TEXT NOT NULL,
	revision TEXT NOT NULL,
	changed BOOLEAN NOT NULL,
	digest BLOB NOT NULL,
	record BLOB NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (digest, baseline_id),
	FOREIGN KEY(baseline_id) REFERENCES baseline (id) ON DELETE CASCADE
);
CREATE TABLE test (
	id INTEGER NOT NULL,
	"key" TEXT NOT NULL,
	name_key TEXT NOT NULL,
	name TEXT NOT NULL,
	label TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE ("key")
);
CREATE TABLE verdict (
	run_id INTEGER NOT NULL,
	place BIGINT NOT NULL,
	metric_id INTEGER NOT NULL,
	value DOUBLE,
	low DOUBLE,
	high DOUBLE,
	n BIGINT NOT NULL,
	warnings TEXT NOT NULL,
	outcome TEXT NOT NULL,
	fails BOOLEAN NOT NULL,
	reason TEXT NOT NULL,
	scale TEXT NOT NULL,
	allowed DOUBLE,
	baseline DOUBLE,
	p_value DOUBLE,
	against TEXT NOT NULL,
	revision TEXT NOT NULL,
	anchored BOOLEAN NOT NULL,
	PRIMARY KEY (run_id, place),
	FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE,
	FOREIGN KEY(metric_id) REFERENCES metric (id)
)
 WITHOUT ROWID;
CREATE INDEX baseline_by_name ON baseline (name);
CREATE INDEX baseline_of_machine ON baseline (machine_id);
CREATE INDEX baseline_of_test ON baseline (test_id, name);
CREATE INDEX run_of_baseline ON run (baseline_id, state, id);
CREATE INDEX test_by_name ON test (name_key);
