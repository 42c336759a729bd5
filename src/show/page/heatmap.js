'use strict';

// A tensor's matrix as a heatmap: what is in view is drawn on a canvas, with numbers where there is room.

// ---------------------------------------------------------------------------------------------------- colours

/** sRGB bytes of a colour in OKLCH, whose lightness is even to the eye. */
function srgb(lightness, chroma, hue) {
    const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
    const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s];
    return linear.map(part => {
        const light = Math.min(Math.max(part, 0), 1);
        return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
    });
}

const luminance = rgb => {
    const [r, g, b] = rgb.map(byte => byte / 255 <= 0.04045 ? byte / 255 / 12.92 : ((byte / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const cssColor = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;
const inkOn = rgb => luminance(rgb) > 0.179 ? '#000' : '#fff'; // either way 4.5 : 1 at least

const STEPS = 256;

/** Blue above zero, orange below: told apart by all kinds of colour vision; the lightness falls (or, in the dark,
 *  rises) by even steps away from zero. */
function makePalette(isDark) {
    const [middle, end] = isDark ? [0.26, 0.86] : [0.965, 0.44];
    const ramp = (hueAtZero, hueAtEnd, chroma) => Array.from({length: STEPS}, (_, i) => {
        const t = 0.035 + 0.965 * i / (STEPS - 1); // not quite the colour of zero
        const hue = hueAtZero + (hueAtEnd - hueAtZero) * t;
        return srgb(middle + (end - middle) * t, chroma * t ** 0.75, hue);
    });
    const above = isDark ? ramp(262, 222, 0.115) : ramp(225, 262, 0.165);
    const below = isDark ? ramp(38, 80, 0.125) : ramp(72, 42, 0.135);
    const palette = {
        above, below, isDark,
        zero: isDark ? [22, 25, 29] : [255, 255, 254],
        minusInfinity: isDark ? [70, 74, 82] : [206, 208, 212],
        infinity: isDark ? [196, 202, 210] : [66, 70, 78],
        nan: isDark ? [122, 28, 96] : [250, 190, 232],
        veiledInk: isDark ? '#a3adb8' : '#4f5862',
    };
    for (const name of ['above', 'below']) {
        palette[name + 'Css'] = palette[name].map(cssColor);
        palette[name + 'Ink'] = palette[name].map(inkOn);
    }
    return palette;
}

// ---------------------------------------------------------------------------------------------------- numbers

/** Numbers of one tensor, formatted alike and short: whole, with a few digits, or with exponents. */
function shortFormat({type, whole, low, high}) {
    if (type === 'boolean') return value => value !== 0 ? 'true' : 'false';
    const largest = Math.max(Math.abs(low || 0), Math.abs(high || 0));
    const special = value => Number.isNaN(value) ? 'NaN' : value > 0 ? '+\u221e' : '\u2212\u221e';
    const signed = text => text.replace(/^-/, '\u2212').replace('e-', 'e\u2212').replace('e+', 'e');
    const finite = whole && largest < 1e7 ? value => String(value + 0)
        : largest >= 1e5 || (largest > 0 && largest < 1e-3) ? value => value === 0 ? '0' : value.toExponential(2)
            : value => value === 0 ? '0' : value.toFixed(largest >= 1000 ? 1 : largest >= 10 ? 2 : 3);
    return value => Number.isFinite(value) ? signed(finite(value)) : special(value);
}

/** What colour a number has. */
class Scale {
    /** @param ranges  {low, high, type, special} of the tensors that share it */
    constructor(ranges) {
        const lows = ranges.map(range => range.low).filter(value => value !== undefined);
        const highs = ranges.map(range => range.high).filter(value => value !== undefined);
        this.isBoolean = ranges.length > 0 && ranges.every(range => range.type === 'boolean');
        this.isSigned = lows.some(value => value < 0);
        const largest = Math.max(0, ...lows.map(Math.abs), ...highs.map(Math.abs));
        this.hasSizes = largest > 0;
        this.largest = largest || 1;
        this.special = new Set(ranges.flatMap(range => range.special || []));
        this.whole = ranges.every(range => range.whole);
    }

    /** Places in a palette: a ramp and how far along, or something special. */
    place(value) {
        if (value === 0) return ['zero', 0];
        if (Number.isNaN(value)) return ['nan', 0];
        if (value === Infinity) return ['infinity', 0];
        if (value === -Infinity) return ['minusInfinity', 0];
        const share = Math.min(Math.abs(value) / this.largest, 1);
        const t = this.isBoolean ? 0.8 : share;
        return [value > 0 ? 'above' : 'below', Math.round(t * (STEPS - 1))];
    }

    rgb(value, palette) {
        const [ramp, i] = this.place(value);
        return ramp === 'above' || ramp === 'below' ? palette[ramp][i] : palette[ramp];
    }
}

/** Fills a rectangle as a number is shown. @return the ink for its text */
function fillCell(context, value, scale, palette, x, y, width, height) {
    const [ramp, i] = scale.place(value);
    if (ramp === 'above' || ramp === 'below') {
        context.fillStyle = palette[ramp + 'Css'][i];
        context.fillRect(x, y, width, height);
        return palette[ramp + 'Ink'][i];
    }
    const color = palette[ramp];
    context.fillStyle = cssColor(color);
    context.fillRect(x, y, width, height);
    if (ramp === 'zero') {
        if (width < 24 && width >= 7 && height >= 7) {
            context.fillStyle = palette.isDark ? '#69727d' : '#a9aeb5';
            context.fillRect(Math.round(x + width / 2 - 1), Math.round(y + height / 2 - 1), 2, 2);
        }
        return palette.isDark ? '#8f99a4' : '#6b737c';
    }
    context.save(); // hatched: no number that could be compared
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    context.strokeStyle = palette.isDark ? 'rgba(255, 255, 255, 0.16)' : 'rgba(0, 0, 0, 0.13)';
    if (ramp === 'infinity') context.strokeStyle = palette.isDark ? 'rgba(0, 0, 0, 0.2)' : 'rgba(255, 255, 255, 0.2)';
    context.lineWidth = 1.5;
    context.beginPath();
    for (let at = -height; at < width + height; at += 6) {
        if (ramp !== 'infinity') {
            context.moveTo(x + at, y + height);
            context.lineTo(x + at + height, y);
        }
        if (ramp !== 'minusInfinity') {
            context.moveTo(x + at, y);
            context.lineTo(x + at + height, y + height);
        }
    }
    context.stroke();
    context.restore();
    return inkOn(color);
}

// ---------------------------------------------------------------------------------------------------- the heatmap

const SIZES = [1, 2, 3, 4, 6, 8, 11, 15, 20]; // of a cell without its number
const NUMBERS = SIZES.length; // the zoom with numbers
const FONT = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace';
const NUMBER_FONT = `12px ${FONT}`, LABEL_FONT = `11px ${FONT}`, LETTER_FONT = `italic 11px ${FONT}`;
const ROW_HEIGHT = 30, LETTER_HEIGHT = 15;
const MOST_PIXELS = 15e6; // of one side: browsers lay out no longer element

const measuring = document.createElement('canvas').getContext('2d');
function textWidth(text, font) {
    measuring.font = font;
    return measuring.measureText(text).width;
}

/** How much room a scrollbar takes; none where it lies above what it scrolls. */
function scrollbarSize() {
    const probe = document.createElement('div');
    probe.className = 'heatmap probe';
    document.body.append(probe);
    const size = probe.offsetWidth - probe.clientWidth;
    probe.remove();
    return size;
}

let heatmapIds = 0;

/** One matrix. */
class Heatmap {
    /**
     * @param matrix  {rows, columns, value(row, column), name(row, column), letters: [row, column],
     *                labels: [of rows, of columns]}
     * @param scale   its colours
     * @param format  its numbers as text
     * @param events  {moved(row, column), picked(row, column), hovered(row, column) or hovered()}
     * @param options {label, highest, isSmall}
     */
    constructor(matrix, scale, format, events, options) {
        Object.assign(this, {matrix, scale, format, events, options});
        this.row = this.column = 0;
        this.marks = null;
        this.isZoomed = false; // by hand
        this.element = document.createElement('div');
        this.element.className = 'heatmap';
        this.element.tabIndex = 0;
        this.element.setAttribute('role', 'grid');
        this.element.setAttribute('aria-label', options.label);
        this.element.setAttribute('aria-rowcount', matrix.rows);
        this.element.setAttribute('aria-colcount', matrix.columns);
        this.room = document.createElement('div');
        this.room.className = 'room';
        this.room.setAttribute('role', 'presentation');
        this.canvas = document.createElement('canvas');
        this.canvas.setAttribute('aria-hidden', 'true');
        const row = document.createElement('div');
        row.setAttribute('role', 'row');
        row.className = 'unseen'; // inside the room: below it, it would be what scrolls
        this.spoken = document.createElement('div');
        this.spoken.setAttribute('role', 'gridcell');
        this.spoken.id = `cell-${++heatmapIds}`;
        row.append(this.spoken);
        this.room.append(this.canvas, row);
        this.element.append(this.room);
        this.element.setAttribute('aria-activedescendant', this.spoken.id);

        this.element.addEventListener('scroll', () => this.draw(), {passive: true});
        this.element.addEventListener('focus', () => this.draw());
        this.element.addEventListener('blur', () => this.draw());
        this.element.addEventListener('keydown', event => this.key(event));
        this.canvas.addEventListener('pointermove', event => this.events.hovered(...(this.cellAt(event) || [])));
        this.canvas.addEventListener('pointerleave', () => this.events.hovered());
        this.canvas.addEventListener('click', event => {
            const cell = this.cellAt(event);
            if (!cell) return;
            this.element.focus({preventScroll: true});
            this.move(...cell);
            this.events.picked(...cell);
        });
    }

    // ------------------------------------------------------------------------------------------------ layout

    /** Fits the heatmap into its place on the page. */
    layout(width, palette) {
        const {rows, columns, labels} = this.matrix;
        this.palette = palette;
        this.width = width;
        const rowTexts = labels[0] || [String(Math.max(rows - 1, 0))];
        const longest = Math.max(0, ...rowTexts.slice(0, 4096).map(text => textWidth(text, LABEL_FONT)));
        this.gutter = Math.min(Math.ceil(Math.max(longest, textWidth(this.rowsLetter(), LETTER_FONT))) + 14, Math.max(64, Math.floor(width * 0.3)));
        if (this.matrix.isFlat) this.gutter = 0;
        this.numberWidth = this.widthOfNumbers();
        if (!this.isZoomed) this.zoom = this.fittingZoom();
        while (this.zoom > 0 && Math.max(rows * this.sizeAt(this.zoom).height, columns * this.sizeAt(this.zoom).width) > MOST_PIXELS) --this.zoom;
        ({width: this.cellWidth, height: this.cellHeight} = this.sizeAt(this.zoom));

        const columnTexts = labels[1] || [String(Math.max(columns - 1, 0))];
        this.columnLabelWidth = Math.max(0, ...columnTexts.slice(0, 4096).map(text => textWidth(text, LABEL_FONT)));
        this.isTurned = Boolean(labels[1]) && this.columnLabelWidth > this.cellWidth - 6;
        this.header = (this.isTurned ? Math.min(Math.ceil(this.columnLabelWidth) + 12, 110) : 22) + (this.matrix.letters[1] ? LETTER_HEIGHT : 0);
        if (this.matrix.isSingle) this.header = 0;

        const all = {width: this.gutter + columns * this.cellWidth + 2, height: this.header + rows * this.cellHeight + 2};
        // A scrollbar may take room, and so may make the other one necessary.
        const {highest} = this.options, bar = scrollbarSize();
        let isHigh = all.height > highest;
        const isWide = all.width + (isHigh ? bar : 0) > width;
        isHigh = isHigh || (isWide && all.height + bar > highest);
        this.element.style.width = `${Math.min(all.width + (isHigh ? bar : 0), width)}px`;
        this.element.style.height = `${Math.min(all.height + (isWide ? bar : 0), highest)}px`;
        this.room.style.width = `${all.width}px`;
        this.room.style.height = `${all.height}px`;
        this.element.dataset.gutter = this.gutter;
        this.element.dataset.header = this.header;
        this.element.dataset.cellWidth = this.cellWidth;
        this.element.dataset.cellHeight = this.cellHeight;
        this.draw();
    }

    sizeAt(zoom) {
        if (zoom === NUMBERS) return {width: this.numberWidth, height: ROW_HEIGHT};
        return {width: SIZES[zoom], height: this.matrix.rows === 1 ? SIZES.at(-1) : SIZES[zoom]};
    }

    rowsLetter() {
        const letter = this.matrix.letters[0];
        return letter ? `${letter} \u2193` : '';
    }

    widthOfNumbers() {
        const {rows, columns, value} = this.matrix;
        const count = rows * columns, stride = Math.max(1, Math.floor(count / 1500));
        let widest = 28;
        for (let i = 0; i < count; i += stride) {
            widest = Math.max(widest, this.format(value(Math.floor(i / columns), i % columns)).length * 7.3);
        }
        return Math.ceil(widest) + 14;
    }

    /** With numbers where they have room, else so that all of it is seen. */
    fittingZoom() {
        const {rows, columns} = this.matrix, most = this.options.isSmall ? 600 : 2500;
        const room = Math.max(this.width - this.gutter - 4, 8 * this.numberWidth);
        if (rows === 1 || (rows * columns <= most && columns * this.numberWidth <= room)) return NUMBERS;
        return this.overview();
    }

    /** The largest cells at which all of it is seen; not the smallest that there are, unless it is a side matter. */
    overview() {
        const {rows, columns} = this.matrix, {highest, isSmall} = this.options;
        const fits = size => columns * size <= this.width - this.gutter - 4 && rows * size <= Math.max(highest - 40, 200);
        for (let zoom = SIZES.length - 1; zoom > 0; --zoom) if (fits(SIZES[zoom])) return zoom;
        return isSmall ? 0 : 1;
    }

    setZoom(zoom) {
        const {cellWidth, cellHeight} = this;
        const middle = {x: (this.element.scrollLeft + this.element.clientWidth / 2) / cellWidth,
            y: (this.element.scrollTop + this.element.clientHeight / 2) / cellHeight};
        this.zoom = Math.min(Math.max(zoom, 0), NUMBERS);
        this.isZoomed = true;
        this.layout(this.width, this.palette);
        this.element.scrollLeft = middle.x * this.cellWidth - this.element.clientWidth / 2;
        this.element.scrollTop = middle.y * this.cellHeight - this.element.clientHeight / 2;
        this.reveal(this.row, this.column);
        this.draw();
    }

    reveal(row, column) {
        const x = column * this.cellWidth, y = row * this.cellHeight, {element} = this;
        const width = element.clientWidth - this.gutter, height = element.clientHeight - this.header;
        if (x < element.scrollLeft) element.scrollLeft = x;
        if (x + this.cellWidth > element.scrollLeft + width) element.scrollLeft = x + this.cellWidth - width + 2;
        if (y < element.scrollTop) element.scrollTop = y;
        if (y + this.cellHeight > element.scrollTop + height) element.scrollTop = y + this.cellHeight - height + 2;
    }

    // ------------------------------------------------------------------------------------------------ state

    move(row, column) {
        const {rows, columns} = this.matrix;
        if (rows === 0 || columns === 0) return;
        this.setCursor(Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1));
        this.events.moved(this.row, this.column);
    }

    /** Moves the cursor and tells nobody. */
    setCursor(row, column) {
        this.row = Math.min(row, Math.max(this.matrix.rows - 1, 0));
        this.column = Math.min(column, Math.max(this.matrix.columns - 1, 0));
        this.spoken.setAttribute('aria-rowindex', this.row + 1);
        this.spoken.setAttribute('aria-colindex', this.column + 1);
        if (this.matrix.rows > 0 && this.matrix.columns > 0) this.spoken.textContent = this.matrix.name(this.row, this.column);
        this.hasCursor = true;
        if (this.cellWidth) this.reveal(this.row, this.column);
        this.draw();
    }

    /** @param marks  offsets row * columns + column of the cells that stand out, or null */
    mark(marks) {
        this.marks = marks;
        if (marks && marks.size > 0) {
            const first = Math.min(...[...marks].slice(0, 10000)), {columns} = this.matrix;
            if (this.cellWidth) this.reveal(Math.floor(first / columns), first % columns);
        }
        this.draw();
    }

    key(event) {
        if (event.altKey || event.metaKey) return;
        const {rows, columns} = this.matrix, {row, column} = this;
        const page = Math.max(1, Math.floor((this.element.clientHeight - this.header) / this.cellHeight) - 1);
        const moves = {
            ArrowUp: [row - 1, column], ArrowDown: [row + 1, column], ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1],
            Home: [event.ctrlKey ? 0 : row, 0], End: [event.ctrlKey ? rows - 1 : row, columns - 1],
            PageUp: [row - page, column], PageDown: [row + page, column],
        };
        if (Object.hasOwn(moves, event.key)) this.move(...moves[event.key]);
        else if (event.key === 'Enter' || event.key === ' ') this.events.picked(row, column);
        else if (event.key === '+' || event.key === '=') this.setZoom(this.zoom + 1);
        else if (event.key === '-' || event.key === '\u2212') this.setZoom(this.zoom - 1);
        else return;
        event.preventDefault();
        event.stopPropagation();
    }

    cellAt(event) {
        const box = this.canvas.getBoundingClientRect();
        const x = event.clientX - box.left, y = event.clientY - box.top;
        if (x < this.gutter || y < this.header) return null;
        const column = Math.floor((x - this.gutter + this.element.scrollLeft) / this.cellWidth);
        const row = Math.floor((y - this.header + this.element.scrollTop) / this.cellHeight);
        return row < this.matrix.rows && column < this.matrix.columns ? [row, column] : null;
    }

    // ------------------------------------------------------------------------------------------------ drawing

    draw() {
        if (this.isAwaited || !this.palette) return;
        this.isAwaited = true;
        requestAnimationFrame(() => {
            this.isAwaited = false;
            if (this.element.isConnected) this.drawNow();
        });
    }

    drawNow() {
        const {element, canvas, palette, gutter, header, cellWidth, cellHeight} = this, {rows, columns} = this.matrix;
        const width = element.clientWidth, height = element.clientHeight, ratio = window.devicePixelRatio || 1;
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
        const context = canvas.getContext('2d');
        context.scale(ratio, ratio);
        const left = element.scrollLeft, top = element.scrollTop;
        const view = {
            firstRow: Math.floor(top / cellHeight), lastRow: Math.min(rows, Math.ceil((top + height - header) / cellHeight)),
            firstColumn: Math.floor(left / cellWidth), lastColumn: Math.min(columns, Math.ceil((left + width - gutter) / cellWidth)),
            x: column => gutter + column * cellWidth - left, y: row => header + row * cellHeight - top,
        };
        context.save();
        context.beginPath();
        const overX = left === 0 ? 4 : 0, overY = top === 0 ? 4 : 0; // what stands out around small cells
        context.rect(gutter - overX, header - overY, width - gutter + overX, height - header + overY);
        context.clip();
        if (cellWidth >= 6) this.drawCells(context, view);
        else this.drawPixels(context, view);
        if (this.marks) this.drawMarks(context, view);
        if (this.hasCursor && rows > 0 && columns > 0) this.drawCursor(context, view);
        context.restore();
        this.drawLabels(context, view, width, height);
        element.dataset.palette = palette.isDark ? 'dark' : 'light';
    }

    isVeiled(row, column) {
        return this.marks !== null && !this.marks.has(row * this.matrix.columns + column);
    }

    drawCells(context, view) {
        const {value} = this.matrix, {cellWidth, cellHeight, palette, scale} = this;
        const hasNumbers = this.zoom === NUMBERS, gap = cellWidth >= 11 ? 1 : 0;
        context.font = NUMBER_FONT;
        context.textAlign = 'center';
        context.textBaseline = 'middle';
        for (let row = view.firstRow; row < view.lastRow; ++row) {
            for (let column = view.firstColumn; column < view.lastColumn; ++column) {
                const x = view.x(column), y = view.y(row), number = value(row, column);
                const isVeiled = this.isVeiled(row, column);
                context.globalAlpha = isVeiled ? 0.3 : 1;
                const ink = fillCell(context, number, scale, palette, x, y, cellWidth - gap, cellHeight - gap);
                if (!hasNumbers) continue;
                context.globalAlpha = 1;
                context.fillStyle = isVeiled ? palette.veiledInk : ink;
                context.fillText(this.format(number), x + (cellWidth - gap) / 2, y + (cellHeight - gap) / 2 + 0.5);
            }
        }
        context.globalAlpha = 1;
    }

    /** Cells too small for more than a colour, a pixel each, then enlarged. */
    drawPixels(context, view) {
        const width = view.lastColumn - view.firstColumn, height = view.lastRow - view.firstRow;
        if (width <= 0 || height <= 0) return;
        const pixels = document.createElement('canvas');
        pixels.width = width;
        pixels.height = height;
        const image = new ImageData(width, height), {value} = this.matrix;
        let at = 0;
        for (let row = view.firstRow; row < view.lastRow; ++row) {
            for (let column = view.firstColumn; column < view.lastColumn; ++column) {
                const rgb = this.scale.rgb(value(row, column), this.palette);
                image.data[at++] = rgb[0];
                image.data[at++] = rgb[1];
                image.data[at++] = rgb[2];
                image.data[at++] = this.isVeiled(row, column) ? 80 : 255;
            }
        }
        pixels.getContext('2d').putImageData(image, 0, 0);
        context.imageSmoothingEnabled = false;
        context.drawImage(pixels, view.x(view.firstColumn), view.y(view.firstRow), width * this.cellWidth, height * this.cellHeight);
    }

    /** A line around what is marked. */
    drawMarks(context, view) {
        const {columns} = this.matrix, {marks, cellWidth, cellHeight} = this;
        const grow = cellWidth < 6 ? 2 : 0;
        const has = (row, column) => column >= 0 && column < columns && marks.has(row * columns + column);
        context.beginPath();
        for (let row = view.firstRow; row < view.lastRow; ++row) {
            for (let column = view.firstColumn; column < view.lastColumn; ++column) {
                if (!has(row, column)) continue;
                const x = view.x(column) - 0.5 - grow, y = view.y(row) - 0.5 - grow;
                const right = x + cellWidth + 2 * grow, bottom = y + cellHeight + 2 * grow;
                const line = (x1, y1, x2, y2) => {
                    context.moveTo(x1, y1);
                    context.lineTo(x2, y2);
                };
                if (!has(row - 1, column)) line(x, y + 1, right, y + 1);
                if (!has(row + 1, column)) line(x, bottom, right, bottom);
                if (!has(row, column - 1)) line(x + 1, y, x + 1, bottom);
                if (!has(row, column + 1)) line(right, y, right, bottom);
            }
        }
        context.lineCap = 'square';
        context.lineWidth = 2;
        context.strokeStyle = this.palette.isDark ? '#ffffff' : '#101418';
        context.stroke();
    }

    drawCursor(context, view) {
        const isFocused = document.activeElement === this.element;
        const grow = this.cellWidth < 8 ? 3 : 0;
        const x = view.x(this.column) - grow, y = view.y(this.row) - grow;
        const width = this.cellWidth - 1 + 2 * grow, height = this.cellHeight - 1 + 2 * grow;
        context.lineWidth = isFocused ? 4.5 : 3.5;
        context.strokeStyle = this.palette.isDark ? '#101418' : '#ffffff';
        context.strokeRect(x + 1, y + 1, width - 2, height - 2);
        context.lineWidth = isFocused ? 2.5 : 1.5;
        context.strokeStyle = this.palette.isDark ? '#ffd84d' : '#111111';
        context.strokeRect(x + 1, y + 1, width - 2, height - 2);
    }

    drawLabels(context, view, width, height) {
        const {labels, letters, rows, columns} = this.matrix, {gutter, header, cellWidth, cellHeight} = this;
        const style = getComputedStyle(this.element);
        const quiet = style.getPropertyValue('--quiet').trim(), ink = style.getPropertyValue('--ink').trim();
        context.font = LABEL_FONT;
        context.fillStyle = quiet;
        const every = (size, room) => {
            for (const stride of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]) if (stride * size >= room) return stride;
            return 10000;
        };
        const cut = (text, room) => {
            if (textWidth(text, LABEL_FONT) <= room) return text;
            const letters = [...text];
            while (letters.length > 1 && textWidth(letters.join('') + '\u2026', LABEL_FONT) > room) letters.pop();
            return letters.join('') + '\u2026';
        };
        context.textBaseline = 'middle';
        if (gutter > 0) {
            context.save();
            context.beginPath();
            context.rect(0, header - 6, gutter, height - header + 6);
            context.clip();
            context.textAlign = 'right';
            const stride = every(cellHeight, 14);
            for (let row = Math.ceil(view.firstRow / stride) * stride; row < view.lastRow; row += stride) {
                context.fillStyle = this.hasCursor && row === this.row ? ink : quiet;
                const text = labels[0] ? cut(labels[0][row], gutter - 8) : String(row);
                context.fillText(text, gutter - 7, view.y(row) + cellHeight / 2);
            }
            context.restore();
        }
        if (header > 0) {
            context.save();
            context.beginPath();
            context.rect(gutter - 10, 0, width - gutter + 10, header);
            context.clip();
            const stride = every(cellWidth, this.isTurned ? 13 : (labels[1] ? this.columnLabelWidth : String(columns).length * 7) + 8);
            for (let column = Math.ceil(view.firstColumn / stride) * stride; column < view.lastColumn; column += stride) {
                context.fillStyle = this.hasCursor && column === this.column ? ink : quiet;
                const x = view.x(column) + (cellWidth - 1) / 2, text = labels[1] ? labels[1][column] : String(column);
                if (this.isTurned) {
                    context.save();
                    context.translate(x, header - 6);
                    context.rotate(-Math.PI / 2);
                    context.textAlign = 'left';
                    context.fillText(cut(text, header - 10 - (letters[1] ? LETTER_HEIGHT : 0)), 0, 0);
                    context.restore();
                } else {
                    context.textAlign = 'center';
                    context.fillText(text, x, header - 11);
                }
            }
            context.restore();
        }
        context.font = LETTER_FONT;
        context.fillStyle = quiet;
        if (header > 0 && letters[1]) {
            context.textAlign = 'left';
            context.fillText(`${letters[1]} \u2192`, gutter > 0 ? gutter + 1 : 4, 8);
        }
        if (gutter > 0 && letters[0]) {
            context.textAlign = 'right';
            context.fillText(cut(this.rowsLetter(), gutter - 8), gutter - 7, header - 11);
        }
    }
}

/** A small picture of a matrix, without anything that could be read. */
function drawThumbnail(canvas, matrix, scale, palette) {
    const {rows, columns, value} = matrix, most = 96;
    const width = Math.min(Math.max(columns, 1), most), height = Math.min(Math.max(rows, 1), most);
    canvas.width = width;
    canvas.height = height;
    if (rows === 0 || columns === 0) return;
    const image = new ImageData(width, height);
    let at = 0;
    for (let y = 0; y < height; ++y) {
        for (let x = 0; x < width; ++x) {
            const rgb = scale.rgb(value(Math.floor(y * rows / height), Math.floor(x * columns / width)), palette);
            image.data.set([...rgb, 255], at);
            at += 4;
        }
    }
    canvas.getContext('2d').putImageData(image, 0, 0);
}
