/* zaris_fdw--0.1.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION zaris_fdw" to load this file. \quit

CREATE FUNCTION zaris_fdw_handler() RETURNS fdw_handler
    LANGUAGE C STRICT AS 'MODULE_PATHNAME';

CREATE FUNCTION zaris_fdw_validator(options text[], catalog oid) RETURNS void
    LANGUAGE C STRICT AS 'MODULE_PATHNAME';

CREATE FOREIGN DATA WRAPPER zaris_fdw
    HANDLER zaris_fdw_handler
    VALIDATOR zaris_fdw_validator;

COMMENT ON FOREIGN DATA WRAPPER zaris_fdw IS 'partitioned key/value stores: Redis and Valkey, clusters and single nodes';

-- Every option there is, of every object.
CREATE FUNCTION zaris_options(
    OUT object text, OUT name text, OUT kind text, OUT allowed text, OUT default_value text, OUT meaning text)
    RETURNS SETOF record
    LANGUAGE C STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME'
    ROWS 20;

COMMENT ON FUNCTION zaris_options() IS 'every option of servers, user mappings, foreign tables and columns';

-- The slot of a key, as a cluster computes it.
CREATE FUNCTION zaris_slot(key bytea) RETURNS integer
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION zaris_slot(key text) RETURNS integer
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION zaris_slot(bytea) IS 'hash slot of a key';
COMMENT ON FUNCTION zaris_slot(text) IS 'hash slot of a key';

-- The content version of a string: what a version column shows for it.
CREATE FUNCTION zaris_version(content bytea) RETURNS bigint
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';

CREATE FUNCTION zaris_version(content text) RETURNS bigint
    LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION zaris_version(bytea) IS 'content version of a string';
COMMENT ON FUNCTION zaris_version(text) IS 'content version of a string';

-- What this session holds open.  A server or mapping that has changed leaves its old line, with current false, until
-- the transaction ends.
CREATE FUNCTION zaris_connections(
    OUT server_name text, OUT user_name text, OUT nodes integer, OUT in_use boolean, OUT current boolean)
    RETURNS SETOF record
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME'
    ROWS 5;

CREATE VIEW zaris_connections AS
    SELECT server_name, user_name, nodes, in_use, current FROM zaris_connections();

GRANT SELECT ON zaris_connections TO PUBLIC;

COMMENT ON VIEW zaris_connections IS 'connections of this session: server, user mapping''s user, nodes connected to';

-- Close this session's connections to a server; the number of user mappings that had any.
CREATE FUNCTION zaris_disconnect(server name) RETURNS integer
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION zaris_disconnect(name) IS 'closes this session''s connections to a server';

-- Fetch the cluster map anew; its generation in this session.
CREATE FUNCTION zaris_refresh_map(server name) RETURNS bigint
    LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION zaris_refresh_map(name) IS 'fetches the cluster map of a server anew';

-- Remove an embedded store of this database, zaris://inproc/NAME, and all that it holds.
CREATE FUNCTION zaris_drop_store(name text) RETURNS void
    LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';

COMMENT ON FUNCTION zaris_drop_store(text) IS 'removes an embedded store of this database and all that it holds';
