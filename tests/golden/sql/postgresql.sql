CREATE TABLE annotation (
	id BIGINT NOT NULL,
	key TEXT NOT NULL,
	revision TEXT NOT NULL,
	text TEXT NOT NULL,
	noted_at TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (key)
);
CREATE TABLE baseline (
	id BIGINT NOT NULL,
	key TEXT NOT NULL,
	name TEXT NOT NULL,
	test_id BIGINT NOT NULL,
	machine_id BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (key),
	FOREIGN KEY(test_id) REFERENCES test (id),
	FOREIGN KEY(machine_id) REFERENCES machine (id)
);
CREATE TABLE estimate (
	run_id BIGINT NOT NULL,
	place BIGINT NOT NULL,
	metric_id BIGINT NOT NULL,
	value DOUBLE PRECISION,
	low DOUBLE PRECISION,
	high DOUBLE PRECISION,
	n BIGINT NOT NULL,
	warnings TEXT NOT NULL,
	PRIMARY KEY (run_id, place),
	FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE,
	FOREIGN KEY(metric_id) REFERENCES metric (id)
);
CREATE TABLE machine (
	id BIGINT NOT NULL,
	key TEXT NOT NULL,
	cpu_model TEXT NOT NULL,
	architecture TEXT NOT NULL,
	system TEXT NOT NULL,
	python TEXT NOT NULL,
	record TEXT NOT NULL,
	cores BIGINT NOT NULL,
	memory_gb BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (key)
);
CREATE TABLE metric (
	id BIGINT NOT NULL,
	key TEXT NOT NULL,
	statistic TEXT NOT NULL,
	better TEXT NOT NULL,
	name TEXT NOT NULL,
	source TEXT NOT NULL,
	per TEXT NOT NULL,
	method TEXT NOT NULL,
	estimated BOOLEAN NOT NULL,
	confidence DOUBLE PRECISION,
	PRIMARY KEY (id),
	UNIQUE (key)
);
CREATE TABLE run (
	id BIGINT NOT NULL,
	baseline_id BIGINT NOT NULL,
	state TEXT NOT NULL,
	started_at TEXT NOT NULL,
	revision TEXT NOT NULL,
	changed BOOLEAN NOT NULL,
	digest BYTEA NOT NULL,
	record BYTEA NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (digest, baseline_id),
	FOREIGN KEY(baseline_id) REFERENCES baseline (id) ON DELETE CASCADE
);
CREATE TABLE test (
	id BIGINT NOT NULL,
	key TEXT NOT NULL,
	name_key TEXT NOT NULL,
	name TEXT NOT NULL,
	label TEXT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (key)
);
CREATE TABLE verdict (
	run_id BIGINT NOT NULL,
	place BIGINT NOT NULL,
	metric_id BIGINT NOT NULL,
	value DOUBLE PRECISION,
	low DOUBLE PRECISION,
	high DOUBLE PRECISION,
	n BIGINT NOT NULL,
	warnings TEXT NOT NULL,
	outcome TEXT NOT NULL,
	fails BOOLEAN NOT NULL,
	reason TEXT NOT NULL,
	scale TEXT NOT NULL,
	allowed DOUBLE PRECISION,
	baseline DOUBLE PRECISION,
	p_value DOUBLE PRECISION,
	against TEXT NOT NULL,
	revision TEXT NOT NULL,
	anchored BOOLEAN NOT NULL,
	PRIMARY KEY (run_id, place),
	FOREIGN KEY(run_id) REFERENCES run (id) ON DELETE CASCADE,
	FOREIGN KEY(metric_id) REFERENCES metric (id)
);
CREATE INDEX baseline_by_name ON baseline (name);
CREATE INDEX baseline_of_machine ON baseline (machine_id);
CREATE INDEX baseline_of_test ON baseline (test_id, name);
CREATE INDEX run_of_baseline ON run (baseline_id, state, id);
CREATE INDEX test_by_name ON test (name_key);
