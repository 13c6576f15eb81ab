// What runs around the functions of a design document: one realm for all of them, while each
// function has a realm of its own whose globals are set up here. Both sides pass JSON text.
//
// Invariant: nothing that a function throws leaves a call unless the call is to fail for good.
(function () {
  'use strict';
  const { parse, stringify } = JSON;
  const { freeze } = Object;
  const { isArray } = Array;

  // What the map function at work has emitted.
  let rows = [];
  const maps = [];
  const reduces = [];

  function emit(key, value) {
    rows.push([key, value]);
  }

  function sum(values) {
    let total = 0;
    if (!isArray(values)) {
      for (const name in values) total += values[name];
      return total;
    }
    for (let index = 0; index < values.length; index++) {
      const value = values[index];
      // A hole counts for nothing; an undefined element makes the sum not a number.
      if (value !== undefined || index in values) total += value;
    }
    return total;
  }

  function written(message) {
    const text = typeof message === 'string' ? message : JSON.stringify(message);
    return String(text).toWellFormed();
  }

  function log(message) {
    rereduceLog(written(message));
  }

  function forLists(name) {
    return () => {
      throw ['error', 'render_error', name + ' is of use in show and list functions alone'];
    };
  }

  // Freezes a document to its leaves.
  function seal(value) {
    for (const name in value) {
      const member = value[name];
      if (typeof member === 'object' && member !== null) seal(member);
    }
    freeze(value);
  }

  function isLimit(error) {
    return error !== null && typeof error === 'object' && limit(error) !== undefined;
  }

  // The limit that QuickJS says was reached, if this is how it says so.
  function limit(error) {
    const { name, message } = error;
    if (name === 'RangeError' && message === 'Maximum call stack size exceeded') {
      return 'the function calls itself too deeply';
    }
    if (name === 'InternalError' && message === 'out of memory') {
      return 'the function needs more memory than it may have';
    }
    return undefined;
  }

  // Returns if what a view's function threw costs no more than the result of this one call.
  function forgive(error, id) {
    if (error === null) throw error;
    if (error === 'fatal_error' || error === undefined) {
      throw ['error', 'map_runtime_error', `function raised '${error}'`];
    }
    if (isArray(error) ? error[0] === 'fatal' : isLimit(error)) throw error;
    const about = id === undefined ? '' : ' with doc._id ' + id;
    log('function raised exception (' + shown(error) + ')' + about);
  }

  // Anything as text; objects may refuse to be that.
  function shown(error) {
    try {
      const isPlain = typeof error === 'object' && error !== null && !('stack' in error);
      return String(isPlain ? stringify(error) : error).toWellFormed();
    } catch (_) {
      return typeof error;
    }
  }

  // The name and the reason of something thrown, as CouchDB's server says them.
  function explain(error) {
    if (isArray(error) && (error[0] === 'fatal' || error[0] === 'error')) {
      return [String(error[1]), written(error[2])];
    }
    if (error === null) {
      // QuickJS throws it, too, where no memory is left for an error.
      const reason = 'function raised null, or it needs more memory than it may have';
      return ['map_runtime_error', reason];
    }
    if (typeof error !== 'object') return ['unnamed_error', shown(error)];
    const reached = limit(error);
    if (reached !== undefined) return ['os_process_error', reached];
    for (const refusal of ['forbidden', 'unauthorized']) {
      if (error[refusal] !== undefined) return [refusal, written(error[refusal])];
    }
    if (error.error && error.reason) return [written(error.error), written(error.reason)];
    if (error.name) return [written(error.name), written(error.message)];
    return ['unnamed_error', shown(error)];
  }

  // A module's place: the value that stands there, its path, and the place that holds it.
  // Relative names begin at the place that holds the module which requires; neither `.` nor `..`
  // reaches the design document itself.
  function find(names, holder, root) {
    let place = holder;
    names.forEach((name, index) => {
      if (name === '.' || name === '..') {
        const from = name === '.' ? place : place.parent;
        if (place.parent === undefined || from.parent === undefined) {
          throw ['error', 'invalid_require_path', 'Object has no parent ' + stringify(place.current)];
        }
        place = from;
        return;
      }
      if (index === 0) place = { current: root };
      const current = place.current[name];
      if (current === undefined) {
        const reason = `Object has no property "${name}". ${stringify(place.current)}`;
        throw ['error', 'invalid_require_path', reason];
      }
      const id = place.id ? place.id + '/' + name : name;
      place = { current, parent: place, id };
    });
    if (typeof place.current !== 'string') {
      const reason = 'Must require a JavaScript string, not: ' + typeof place.current;
      throw ['error', 'invalid_require_path', reason];
    }
    return place;
  }

  // `require` for the functions of `design`, whose modules live in the realm of `global`.
  function requirer(design, global, evaluate) {
    function load(name, module) {
      const { current, parent, id } = find(name.split('/'), module.parent, design);
      const cache = (design._module_cache ??= {});
      if (Object.hasOwn(cache, id)) return cache[id];
      // Stands there before the module runs, so that a circle of modules ends.
      cache[id] = {};
      const own = { current, parent, id, exports: {} };
      try {
        const run = evaluate('(function (module, exports, require) { ' + current + '\n})');
        run.call(global, own, own.exports, (other) => load(other, own));
      } catch (error) {
        if (isLimit(error)) throw error;
        throw ['error', 'compilation_error', `Module require('${name}') raised error ${isArray(error) ? error : shown(error)}`];
      }
      return (cache[id] = own.exports);
    }
    return (name) => load(name, {});
  }

  // The function that `source` is. `rewritten` is the same text in standard JavaScript.
  function compile(global, source, rewritten, design) {
    if (source === '') throw ['error', 'not_found', 'missing function'];
    const evaluate = global.eval;
    Object.assign(global, { emit, sum, log, isArray, JSON, toJSON: JSON.stringify });
    for (const name of ['start', 'send', 'getRow', 'provides', 'registerType']) {
      global[name] = forLists(name);
    }
    if (design !== undefined) global.require = requirer(design, global, evaluate);
    // CouchDB's engine has neither.
    delete global.String.prototype.normalize;
    delete global.String.prototype.localeCompare;
    let compiled;
    try {
      compiled = evaluate(rewritten);
    } catch (error) {
      if (isLimit(error)) throw error;
      throw ['error', 'compilation_error', `${shown(error)} (${source})`];
    }
    if (typeof compiled !== 'function') {
      const reason = `Expression does not eval to a function. (${source})`;
      throw ['error', 'compilation_error', reason];
    }
    return compiled;
  }

  // A value that JSON cannot hold is CouchDB's null, as it is inside an array.
  const answer = (value) => JSON.stringify([value]);

  function reduceWith(number, keys, values, again) {
    const reduce = reduces[number];
    let value = null;
    try {
      value = reduce(keys, values, again);
    } catch (error) {
      forgive(error);
    }
    return answer(value);
  }

  let design;
  const compiled = new Map();

  // What `path` leads to in the design document.
  function source(path) {
    let found = design;
    for (const name of path) {
      if (found === null || typeof found !== 'object' || !Object.hasOwn(found, name)) {
        throw ['error', 'not_found', 'missing json key: ' + name];
      }
      found = found[name];
    }
    return found;
  }

  const rendered = { updates: 'update', shows: 'show' };

  return freeze({
    explain(error) {
      // What was emitted may be what fills the memory.
      rows.length = 0;
      return stringify(explain(error));
    },

    addMap(global, source, rewritten, library) {
      const lib = library === undefined ? undefined : parse(library);
      maps.push(compile(global, source, rewritten, { views: { lib } }));
    },

    addReduce(global, source, rewritten) {
      reduces.push(compile(global, source, rewritten, undefined));
    },

    map(text) {
      const doc = parse(text);
      seal(doc);
      const all = [];
      for (let index = 0; index < maps.length; index++) {
        const map = maps[index];
        rows = [];
        try {
          map(doc);
        } catch (error) {
          forgive(error, doc._id);
          const lost = [];
          rows = lost;
        }
        all.push(rows);
      }
      return JSON.stringify(all);
    },

    reduce(number, text) {
      const [keys, values] = parse(text);
      return reduceWith(number, keys, values, false);
    },

    rereduce(number, text) {
      return reduceWith(number, null, parse(text), true);
    },

    setDesign(text) {
      design = parse(text);
    },

    // The text at `path` if it has yet to be compiled.
    wanted(path) {
      if (compiled.has(path)) return undefined;
      const text = source(parse(path));
      if (typeof text === 'string') return text;
      throw ['error', 'compilation_error', 'a function must be a string, not: ' + typeof text];
    },

    addFunction(global, path, source, rewritten) {
      compiled.set(path, compile(global, source, rewritten, design));
    },

    apply(path, text) {
      const [kind] = parse(path);
      try {
        return answer(compiled.get(path).apply(design, parse(text)));
      } catch (error) {
        if (!(kind in rendered) || isArray(error) || isLimit(error)) throw error;
        const trace = error === null || error === undefined ? undefined : error.stack;
        const reason = `function raised error: ${shown(error)} \nstacktrace: ${trace}`;
        throw ['error', 'render_error', reason];
      }
    },
  });
})()
